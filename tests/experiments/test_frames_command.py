"""`python -m experiments frames`: cells and table."""

import json

from experiments.frames.cells import FILE, METHODS, MODELS, cells
from experiments.frames.command import table


def test_the_file_holds_the_cells():
    assert json.loads(FILE.read_text(encoding="utf-8")) == cells()


def test_fine_tuning_starts_from_the_upright_network():
    by_name = {cell["name"]: cell["arguments"] for cell in cells("here")}
    assert len(by_name) == len(MODELS) * len(METHODS)
    for model in MODELS:
        for method in METHODS:
            words = by_name[f"{model}-{method}"]
            wanted = f"here/{model}-upright" if method.startswith("tuned") else None
            assert (words[words.index("--start-from") + 1] if "--start-from" in words else None) == wanted
            assert words[words.index("--options") + 1] == by_name[f"{model}-upright"][3]


def test_table():
    result = {"upright": 0.8, "rotated": 0.1, "same_answer": 0.2, "milliseconds": 2.0}
    found = {"dgcnn-upright": result | {"seconds": 600.0}, "dgcnn-frames": result | {"rotated": 0.6, "milliseconds": 8.0}}
    page = table(found).to_markdown()
    assert "| DGCNN, ordinary, trained upright | 80.0% | 10.0% | 20.0% | 1.00 | 10 min |" in page
    assert "| DGCNN, in frames, as trained upright | 80.0% | 60.0% | 20.0% | 4.00 | – |" in page
    assert "PointNet++" not in page.partition("\n- ")[0]
