import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test writes to the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user_cache"))


@pytest.fixture
def real_data():
    """The folder with the real data sets; the test is skipped if there is none."""
    folder = Path(os.environ.get("REQNN_DATA") or Path(__file__).resolve().parents[3].parent / "shared" / "data")
    if not (folder / "3d_mnist").is_dir():
        pytest.skip(f"the real data sets are not here: set REQNN_DATA to their folder (looked at {folder})")
    return folder
