"""`python -m experiments normals` with tiny networks."""

import json
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.normals import command


def test_table_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(command, "SETTINGS", {**command.SETTINGS, "options": {"width": 1 / 16, "k": 8}})
    monkeypatch.setattr(command, "POINTS", 96)
    words = ["normals", "--copies", "1", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert "PCA, k = 12" in " ".join(capsys.readouterr().out.split())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["normals.json", "normals.md", "normals.png"]
    records = json.loads((tmp_path / "out" / "normals.json").read_text())["rows"]
    assert [record["network"] for record in records] == list(command.NETWORKS)
    for record in records:
        upright, rotated = record["results"]
        revised = record["network"].startswith("REQNN")
        assert (rotated["change"] < 1e-2) == revised
        assert upright["pca_median"] == rotated["pca_median"]
        assert upright["shapes"] == record["other_objects"]["shapes"] == 8


def test_each_object_is_in_one_split() -> None:
    chosen = command.Normals(copies=2)
    objects = [set(chosen._objects(split).labels.tolist()) for split in ("train", "validation", "test")]
    assert [len(some) for some in objects] == [22, 8, 8]
    assert len(set.union(*objects)) == 38
