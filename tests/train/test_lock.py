"""One process a run: locks are exclusive, name their holder, and do not outlive their process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reqnn.data import PointClouds
from reqnn.errors import InputError
from reqnn.train import fit
from reqnn.train.processes import locked

HOLD = """
import os, sys, time
from pathlib import Path
from reqnn.train.processes import locked
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
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], cwd=Path(__file__).parents[2])
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
    with pytest.raises(InputError, match="another folder"), locked(path):
        pass


def test_two_trainings_of_one_folder(tmp_path: Path, clouds: PointClouds, held_out: PointClouds, settings: Callable) -> None:
    with locked(tmp_path / "run" / "run.lock"), pytest.raises(InputError, match=rf"is being trained \(.*{os.getpid()}\)"):
        fit(settings(epochs=1), clouds, held_out, quiet=True)
    assert not (tmp_path / "run" / "config.json").exists()
    fit(settings(epochs=1), clouds, held_out, quiet=True)


def test_a_link_in_the_place_of_the_holder_is_not_followed(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / "victim").write_text("mine")
    path.with_suffix(".holder").symlink_to("victim")
    with locked(path) as holder:
        assert holder is None
    assert (path.parent / "victim").read_text() == "mine"
