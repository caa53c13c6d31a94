import gc
import subprocess
import sys

import pytest
import torch

from experiments.bench import memory
from experiments.bench.memory import in_fresh_process, peak_above_now


def test_peak_counts_what_is_freed_before_the_end():
    gc.collect()
    size = 64 << 20
    peak = peak_above_now(lambda: torch.ones(size, dtype=torch.uint8).amax())
    assert 0.9 * size < peak < 1.6 * size
    assert peak_above_now(lambda: None) < 0.1 * size


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ("raise ValueError('what happened')", "failed: ValueError: what happened"),
        ("import time; time.sleep(30)", "takes longer than 1.2 s"),
    ],
)
def test_a_process_that_ends_badly_is_a_reason(monkeypatch, code, reason):
    real = subprocess.run
    monkeypatch.setattr(memory.subprocess, "run", lambda command, **options: real([sys.executable, "-c", code], **options))
    found = in_fresh_process("experiments.bench.memory.probe", {}, 1.2 if "sleep" in code else 80.0)
    assert found["peak_bytes"] is None
    assert reason in found["skipped"]


def test_a_fresh_process_returns_the_result():
    assert in_fresh_process("operator.index", {}, 80.0)["skipped"].startswith("failed: TypeError")
    assert in_fresh_process("builtins.dict", {"a": 1}, 80.0) == {"a": 1}
