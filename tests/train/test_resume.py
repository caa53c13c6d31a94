"""The whole program, stopped without warning in the middle of an epoch, with data workers, dropout and an average."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reqnn.cli import main
from reqnn.train.checkpoint import STATE
from reqnn.train.weights import load_tensors

ARGUMENTS = [
    *("train", "--model", "pointnet", "--data", "digits", "--points", "24", "--limit", "240", "--batch", "8", "--epochs", "8"),
    *("--options", '{"width": 0.0625, "dropout": 0.3}', "--workers", "2", "--ema", "0.9", "--jitter", "0.01", "--threads", "1"),
    *("--checkpoint-steps", "3", "--accelerator", "cpu", "--fraction", "0.5"),
]


def stop_after_a_checkpoint(out: Path, number: signal.Signals) -> tuple[int, str]:
    """Start a run and send it a signal soon after its first checkpoint; the exit code and what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reqnn.cli", *ARGUMENTS, "--out", str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        patience = time.monotonic() + 240
        while not (out / STATE).exists() and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.002)
        time.sleep(0.02)
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, output


def step(folder: Path) -> int:
    return load_tensors(folder / STATE)[1]["progress"]["step"]


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    through, killed = tmp_path / "through", tmp_path / "killed"
    code, output = stop_after_a_checkpoint(killed, signal.SIGKILL)
    assert code == -signal.SIGKILL, output
    assert main([*ARGUMENTS, "--out", str(through)]) == 0
    before = step(killed)
    assert 0 < before < step(through)
    capsys.readouterr()
    assert main(["train", "--resume", "--out", str(killed)]) == 0  # with the settings of the folder
    assert f"from step {before}" in capsys.readouterr().out
    for name in (STATE, "best.safetensors", "last.safetensors"):
        expected, found = load_tensors(through / name)[0], load_tensors(killed / name)[0]
        assert set(found) == set(expected)
        assert all(found[key].equal(expected[key]) for key in expected), name


def test_ctrl_c_writes_a_checkpoint_and_exits_with_130(tmp_path: Path) -> None:
    code, output = stop_after_a_checkpoint(tmp_path / "run", signal.SIGINT)
    assert code == 130, output
    assert f"stopped after step {step(tmp_path / 'run')}" in output
    assert "Traceback" not in output
