"""One process a run: locks are exclusive, name their holder, and do not outlive their process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.harness.run_lock import locked
from reqnn.errors import InputError

HOLD = """
import os, sys, time
from pathlib import Path
from experiments.harness.run_lock import locked
with locked(Path(sys.argv[1])) as holder:
    assert holder is None
    Path(sys.argv[1]).with_suffix(".ready").touch()
    time.sleep(120)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "cell.lock"


def test_only_one_holds_it(path: Path) -> None:
    with locked(path) as first, locked(path) as second:
        assert first is None
        assert second == f"{os.uname().nodename}, process {os.getpid()}"
    with locked(path) as third:
        assert third is None
    assert not path.with_suffix(".holder").exists()


def test_a_lock_is_released_by_an_error(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked(path):
        raise KeyboardInterrupt
    with locked(path) as holder:
        assert holder is None


def test_a_lock_does_not_outlive_its_process(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], cwd=Path(__file__).parents[3])
    try:
        patience = time.monotonic() + 120
        while not path.with_suffix(".ready").exists() and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.05)
        with locked(path) as holder:
            assert holder == f"{os.uname().nodename}, process {process.pid}"
    finally:
        process.kill()
        process.wait()
    with locked(path) as holder:
        assert holder is None


def test_a_folder_that_cannot_be_made_is_explained(path: Path) -> None:
    path.parent.write_text("a file")
    with pytest.raises(InputError, match="--runs"), locked(path):
        pass
