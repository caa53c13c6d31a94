"""The comparison of part segmentation: cells and table."""

import json

from experiments.__main__ import main
from experiments.segmentation.cells import FILE, METHODS, NETWORKS, cells, name_of
from experiments.segmentation.command import table
from reqnn.train import TrainConfig


def test_the_file_holds_the_cells():
    assert json.loads(FILE.read_text(encoding="utf-8")) == cells()
    assert [cell["name"] for cell in cells()] == [name_of(network, method) for network in NETWORKS for method in METHODS]


def test_the_options_are_those_of_reqnn_train():

    known = {f"--{name.replace('_', '-')}" for name in TrainConfig.__dataclass_fields__}
    for cell in cells():
        assert {word for word in cell["arguments"] if word.startswith("--")} <= known


def test_without_a_finished_run(tmp_path, capsys):
    assert main(["segmentation", "--runs", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "holds no finished run; train them: python -m experiments.queue" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_table():
    scores = [{"instance_miou": value, "class_miou": value - 0.1} for value in (0.8, 0.75)]
    result = {"upright": scores[0], "rotated": scores[1], "same_answer": 0.9995, "parameters": 1234, "seconds": 7200.0}
    page = table({"dgcnn_parts-full": result}).to_markdown()
    assert "| DGCNN | REQNN by full | 80.0% → 75.0% | 70.0% → 65.0% | 99.950% | 1,234 | 8 | 2.0 |" in page
    assert "PointNet++" not in page.partition("|")[2].partition("\n\n")[0]
