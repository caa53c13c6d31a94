"""The comparison over the number of training shapes: cells, table and plot."""

import json

from experiments.data_efficiency.cells import EPOCHS, FILE, METHODS, cells, name_of
from experiments.data_efficiency.command import draw, finished, missing, table


def test_the_file_holds_the_cells():
    assert json.loads(FILE.read_text(encoding="utf-8")) == cells()


def test_all_methods_have_the_same_settings():
    for fraction in EPOCHS:
        shared = set()
        for cell in cells():
            method = cell["name"].removesuffix(f"-{fraction:g}")
            if method in METHODS:
                shared.add(tuple(cell["arguments"][len(METHODS[method][1]) :]))
        assert len(shared) == 1


def test_table_and_plot(tmp_path):
    found = {
        name_of(method, fraction): {"upright": 0.9, "rotated": 0.1 * place, "training_clouds": int(fraction * 1000)}
        for place, method in enumerate(METHODS)
        for fraction in (0.1, 1.0)
    }
    del found["full-1"]
    page = table(found).to_markdown()
    assert "| REQNN by full | 90.0% → 40.0% | – |" in page
    assert "full-1" in missing(found)
    assert draw(found, tmp_path / "plot.png").stat().st_size > 1000


def test_a_run_is_finished_when_its_metrics_say_so(tmp_path):
    assert not finished(tmp_path)
    (tmp_path / "metrics.json").write_text('{"finished": true}')
    assert finished(tmp_path)
