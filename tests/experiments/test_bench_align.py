"""`python -m experiments bench-align`: its numbers, tables and files."""

import json

import torch

from experiments.__main__ import main
from experiments.alignment.measure import ICP, OURS, PCA, run
from experiments.alignment.report import classes_table, ways_table
from reqnn.data.dataset import PointClouds
from surfaces import surfaces


def clouds():
    points = surfaces(6, 320, seed=1)
    points = points + 0.5 * points[..., :1] ** 2 * torch.tensor([0.0, 1.0, 0.4]) + 0.3 * points[..., 1:2].clamp(min=0)  # bent
    return PointClouds(points, torch.tensor([0, 0, 0, 1, 1, 1]), ("odd", "even"), "some", "test")


def test_the_experiment_and_its_tables():
    result = run(clouds(), seed=0, network=None, say=lambda text: None)
    assert result.copies.errors.max() < 1e-5
    assert set(result.samplings) >= {OURS, PCA, ICP}
    assert result.samplings[OURS].errors.median() < result.samplings[ICP].errors.median()
    ways, classes = ways_table(result), classes_table(result)
    assert ways.records[0]["median"] < 0.01
    assert [row[0].text for row in classes.rows] == ["odd", "even"]
    again = run(clouds(), seed=0, network=None, say=lambda text: None)
    torch.testing.assert_close(again.samplings[OURS].errors, result.samplings[OURS].errors)


def test_bench_align(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("reqnn.data.load", lambda *args, **kwargs: clouds())
    arguments = ["bench-align", "--data", "some", "--limit", "2", "--network-shapes", "0", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "two copies" in capsys.readouterr().out
    record = json.loads((tmp_path / "align.json").read_text())
    assert record["settings"]["shapes"] == 4
    assert record["rows"][0]["median"] < 0.01
    assert (tmp_path / "align.png").stat().st_size > 10_000
    assert "## Different samplings" in (tmp_path / "align.md").read_text()
