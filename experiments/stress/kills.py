"""Kill a small training again and again, and resume it: nothing may be lost, and the weights must be those of a whole run."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reqnn.errors import InputError
from reqnn.train.checkpoint import PREVIOUS, STATE
from reqnn.train.weights import load_tensors

TRAINING = [
    *("train", "--model", "pointnet", "--equivariant", "--data", "digits", "--points", "24", "--limit", "160", "--batch", "8"),
    *("--options", '{"width": 0.0625, "dropout": 0.3}', "--epochs", "3", "--ema", "0.9", "--jitter", "0.01", "--threads", "1"),
    *("--checkpoint-steps", "1", "--accelerator", "cpu"),
]
"""A checkpoint after every step, so that many kills hit the writing of one."""
MOST_SAVES, LONGEST = 5, 0.03  # checkpoints before a kill, and seconds after the last of them, at most


def kills(count: int, seed: int = 0) -> dict[str, Any]:
    """Kill (SIGKILL) and resume trainings until `count` kills: how many there were, what was lost, with what ending."""
    import lightning_fabric  # noqa: F401 - once, before the trainings are forked from this process

    import reqnn.train  # noqa: F401

    rng, found = random.Random(seed), {"kills": 0, "losses": 0, "during_a_write": 0, "trainings": 0, "different_weights": 0}
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="reqnn-killed-") as folder:
        whole = Path(folder) / "whole"
        if _training(whole) != 0:
            raise AssertionError("the uninterrupted training fails")
        while found["kills"] < count:
            killed, step = Path(folder) / f"killed-{found['trainings']}", 0
            while (code := _training(killed, rng.randint(0, MOST_SAVES), rng.uniform(0.0, LONGEST))) == -signal.SIGKILL:
                found["kills"] += 1
                found["during_a_write"] += any(killed.glob(".*.safetensors")) if killed.exists() else 0
                now = _step(killed)
                if now < step:
                    found["losses"] += 1
                    failures.append(f"kill {found['kills']}: step {now} after step {step}")
                step = max(step, now)
                if found["kills"] >= count:
                    code = _training(killed)
                    break
            if code != 0:
                found["losses"] += 1
                failures.append(f"a resumed training ended with {code}")
            found["trainings"] += 1
            found["different_weights"] += not _same(whole, killed)
            print(f"{found}", file=sys.stderr, flush=True)
    return {**found, "seed": seed, "training": " ".join(TRAINING), "failures": failures}


def _training(folder: Path, saves: int | None = None, seconds: float = 0.0) -> int:
    """Train or resume in a process of its own, killed some seconds after so many checkpoints; its exit code."""
    child = os.fork()
    if child == 0:  # as `reqnn train`, without the seconds that its imports take
        code = 3
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            from reqnn.cli import main

            code = main([*TRAINING, "--resume", "--out", str(folder)])
        finally:
            os._exit(code)
    last = _written(folder)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if (now := _written(folder)) != last and saves is not None:
            last, saves = now, saves - 1
        if saves is not None and saves <= 0:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
            saves = None
        time.sleep(0.001)


def _written(folder: Path) -> int:
    """A number that changes with every checkpoint."""
    try:
        return (folder / STATE).stat().st_mtime_ns
    except OSError:
        return 0


def _step(folder: Path) -> int:
    """The step of the checkpoint, or of the one before it; 0 if there is none."""
    for name in (STATE, PREVIOUS):
        try:
            return int(load_tensors(folder / name)[1]["progress"]["step"])
        except InputError:
            continue
    return 0


def _same(one: Path, other: Path, names: Sequence[str] = (STATE, "best.safetensors", "last.safetensors")) -> bool:
    """Whether two runs ended with the same weights, bit for bit."""
    for name in names:
        first, second = load_tensors(one / name)[0], load_tensors(other / name)[0]
        if first.keys() != second.keys() or not all(first[key].equal(second[key]) for key in first):
            return False
    return True
