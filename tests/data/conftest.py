"""Where the real data is, and small data sets on disk."""

import os
from pathlib import Path

import numpy as np
import pytest
from written_data import BOX, clouds, write_hdf5


@pytest.fixture(autouse=True)
def own_places(tmp_path_factory, monkeypatch):
    """No test sees the user's data or writes to the user's cache."""
    monkeypatch.delenv("REQNN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user_cache"))


def _real_root():
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ["REQNN_DATA"]) if os.environ.get("REQNN_DATA") else beside


REAL = _real_root()  # read before the fixture above hides it


@pytest.fixture
def real_data():
    """The folder with the real data sets; the test is skipped where there is none."""
    if not (REAL / "modelnet40_ply_hdf5_1024").is_dir():
        pytest.skip(f"the real data sets are not here: set REQNN_DATA to their folder (looked at {REAL})")
    return REAL


@pytest.fixture
def pointnet_folder(tmp_path):
    """Two train files and a test file of 16-point clouds in three classes."""
    folder = tmp_path / "shapes"
    for number, (split, count) in enumerate((("train0", 5), ("train1", 4), ("test0", 3))):
        labels = (np.arange(count) % 3)[:, None].astype(np.uint8)
        write_hdf5(folder / f"ply_data_{split}.h5", data=clouds(count, seed=number), label=labels)
    (folder / "shape_names.txt").write_text("chair\nlamp\ntable\n")
    return folder


@pytest.fixture
def box_file(tmp_path):
    """A box 1 × 2 × 3 of six quadrilaterals."""
    path = tmp_path / "box.off"
    path.write_text(BOX)
    return path
