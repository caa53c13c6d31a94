"""Hypothesis draws the same examples in every run; each worker of pytest-xdist keeps to one core; fixtures of a small run."""

import os

import pytest
import torch
from hypothesis import settings

from reqnn.data import PointClouds, digits
from reqnn.data.sets import DIGITS
from reqnn.train import TrainConfig, fit, log
from reqnn.train import run as run_files

settings.register_profile("reqnn", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("reqnn")
torch.set_num_threads(1)
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # some virtual machines announce AMX and crash in it

POINTS = 48


@pytest.fixture(scope="session", autouse=True)
def _no_curves():
    """Learning curves are empty files: drawing one takes longer than a small run. `test_log` draws one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "draw_curve", lambda history, task, path: path.touch())
        yield


@pytest.fixture(scope="session")
def test_digits():
    """24 test digits."""
    points, labels = digits("test", POINTS, limit=24)
    return PointClouds(points, labels, DIGITS, name="digits", split="test", up="y")


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """A run of a few seconds: its weights tell clouds apart, if not digits."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    config = TrainConfig(
        model="dgcnn",
        equivariant=True,
        options={"width": 0.125, "k": 8},
        data="digits",
        points=POINTS,
        limit=256,
        epochs=3,
        batch=16,
        optimizer="adamw",
        lr=3e-3,
        threads=1,
        accelerator="cpu",
        out=str(folder),
    )
    fit(config, quiet=True)
    return folder


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The folder of weights that ship, empty."""
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setattr(run_files, "WEIGHTS", folder)
    return folder
