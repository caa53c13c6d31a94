"""Several processes through the command line: as `reqnn train` starts them, and as `torchrun` does."""

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from reqnn.cli import main
from reqnn.errors import InputError
from reqnn.train.processes import connect
from reqnn.train.weights import load_tensors

ARGUMENTS = [
    *(
        "train",
        "--model",
        "dgcnn",
        "--equivariant",
        "--options",
        '{"width": 0.0625, "k": 4, "dropout": 0.0}',
        "--data",
        "digits",
    ),
    *("--points", "24", "--limit", "80", "--batch", "16", "--epochs", "1", "--threads", "1", "--precision", "64-true"),
    *("--accelerator", "cpu", "--jitter", "0.01", "--optimizer", "sgd", "--lr", "0.01"),
]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes") / "alone"
    assert main([*ARGUMENTS, "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    "start", [["-m", "reqnn.cli", *ARGUMENTS, "--devices", "2"], [*TORCHRUN, "-m", "reqnn.cli", *ARGUMENTS]]
)
def test_two_processes_train_as_one(start: list[str], alone: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *start, "--out", str(tmp_path / "two")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stdout
    assert done.stdout.count("best validation accuracy") == 1
    rows = [next(csv.DictReader((folder / "log.csv").read_text().splitlines())) for folder in (alone, tmp_path / "two")]
    for name in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"):
        assert float(rows[1][name]) == pytest.approx(float(rows[0][name]), rel=1e-6)
    expected, found = (load_tensors(folder / "last.safetensors")[0] for folder in (alone, tmp_path / "two"))
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)  # logits leave in float32


def test_a_batch_that_cannot_be_shared_out_is_refused(settings: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_torchelastic_launched", lambda: True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setenv("WORLD_SIZE", "6")
    with pytest.raises(InputError, match="must divide by processes × accumulate = 6"):
        connect(settings())


def test_a_missing_accelerator_is_named(settings: Callable) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(InputError, match="accelerator is cuda, but torch finds none here; available: cpu"):
        connect(settings(accelerator="cuda"))
