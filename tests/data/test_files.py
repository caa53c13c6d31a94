import os

import numpy as np
import pytest
import torch
from written_data import box

from reqnn.data import load
from reqnn.data.files import cached


@pytest.fixture
def folder(tmp_path):
    """Four boxes of one class."""
    (tmp_path / "set" / "box").mkdir(parents=True)
    for i in range(4):
        (tmp_path / "set" / "box" / f"{i}.off").write_text(box(1 + i))
    return tmp_path / "set"


def test_the_second_time_nothing_is_read(folder, tmp_path, monkeypatch):
    first = load(folder, "all", 16, cache=tmp_path / "cache")
    monkeypatch.setattr("reqnn.data.folder_layouts.read_shape", None)
    again = load(folder, "all", 16, cache=tmp_path / "cache")
    assert torch.equal(first.points, again.points)
    assert torch.equal(first.normals, again.normals)
    assert torch.equal(first.groups, again.groups)
    assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".npz"]


def test_a_change_of_files_or_settings_is_seen(folder, tmp_path):
    def points(**settings):
        return load(folder, "all", cache=tmp_path / "cache", **{"points": 16, **settings}).points

    first = points()
    assert not torch.equal(points(seed=1), first)
    assert points(points=8).shape == (4, 8, 3)
    assert not torch.allclose(points(normalize=False), first)
    file = folder / "box" / "2.off"
    file.write_text(box(9).replace("0.0 18.0", "1.0 18.0"))
    assert not torch.equal(points()[2], first[2])
    assert torch.equal(points()[:2], first[:2])
    (folder / "box" / "4.off").write_text(box(11))
    assert points().shape == (5, 16, 3)


def test_a_damaged_cache_is_made_anew(folder, tmp_path):
    first = load(folder, "all", 16, cache=tmp_path / "cache").points
    (stored,) = (tmp_path / "cache").iterdir()
    whole = stored.read_bytes()
    for content in (b"", b"garbage", whole[: len(whole) // 2]):
        stored.write_bytes(content)
        assert torch.equal(load(folder, "all", 16, cache=tmp_path / "cache").points, first)
        assert stored.read_bytes() == whole


def test_an_unwritable_cache_is_no_error(folder, tmp_path):
    (tmp_path / "file").write_text("")
    assert load(folder, "all", 16, cache=tmp_path / "file" / "cache").points.shape == (4, 16, 3)


def test_a_failure_leaves_nothing(tmp_path):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path / "cache", [], [], fail)
    assert not (tmp_path / "cache").exists()


def test_keys(tmp_path):
    file = tmp_path / "a"
    file.write_text("x")

    def stored(number, settings=(4,)):
        return cached(tmp_path / "cache", [file], settings, lambda: {"a": np.array(number)})["a"]

    assert [stored(1), stored(2), stored(3, (5,))] == [1, 1, 3]
    os.utime(file, ns=(1, 1))
    assert stored(4) == 4
