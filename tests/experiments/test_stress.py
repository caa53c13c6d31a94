"""Damaged files: a few hundred of each kind here, 10,000 by `python -m experiments stress`."""

import json
import os
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.stress.damage import damaged, damaged_files, try_file, try_files
from experiments.stress.samples import Sample, samples

KINDS = list(samples())


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_loaded_or_refused_by_name(kind: str) -> None:
    found = try_files(kind, first=0, count=120)
    assert found["failures"] == []
    assert found.get("refused", 0) + found.get("loaded", 0) == 120


def test_the_same_seed_damages_alike() -> None:
    content = samples()["weights"].content
    assert [damaged(content, seed) for seed in range(20)] == [damaged(content, seed) for seed in range(20)]
    assert sum(damaged(content, seed) != content for seed in range(20)) > 15


def test_what_a_loader_lets_through_is_counted(tmp_path: Path) -> None:
    """The negative control."""

    def careless(path: Path) -> bytes:
        return path.read_bytes() if b"1" in path.read_bytes() else {}["missing"]  # type: ignore[return-value]

    sample = Sample("some.txt", b"1", careless, guarded=True)
    assert try_file(sample, b"1", tmp_path, b"1")[0] == "loaded"
    assert try_file(sample, b"12", tmp_path, b"1")[0] == "changed"
    assert try_file(sample, b"2", tmp_path, b"1")[0] == "traceback"


def test_rotated_shapes_are_counted_on(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ["stress", "--weights", str(run_folder), "--data", "digits", "--out", str(tmp_path)]
    for rotated, tried in ((16, 16), (32, 32), (20, 32)):
        assert main([*words, "--rotated", str(rotated)]) == 0
        record = json.loads((tmp_path / "stress.json").read_text())["rows"][0]
        assert (record["what"], record["tried"], record["changed"]) == ("rotated shapes", tried, 0)
        assert record["networks"][str(run_folder)]["tried"] == tried
    assert 0 < record["largest_change"] < 0.02
    assert "not measured yet" in (tmp_path / "stress.md").read_text()


def test_a_crash_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that ends its process, beside one that works."""
    sound = Sample("some.txt", b"1", Path.read_bytes)
    chosen = {"sound": sound, "deadly": Sample("some.txt", b"1", lambda path: os._exit(9))}
    monkeypatch.setattr("experiments.stress.damage.samples", lambda: chosen)
    found = damaged_files(20)
    assert (found["loaded"], found["crash"], found["files"]) == (10, 1, 10)
    assert found["failures"] == [{"kind": "deadly", "what": "the process ended with 9"}]
