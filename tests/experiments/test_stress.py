"""Damaged files: a few hundred of each kind here, 10,000 by `python -m experiments stress`."""

from pathlib import Path

import pytest

from experiments.stress.damage import damaged, try_file, try_files
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
