import gc
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from experiments.bench import memory
from experiments.bench.memory import comparisons, in_fresh_process, measure_memory
from experiments.bench.probe import peak_above_now, probe, saved_bytes
from experiments.bench.settings import Settings
from experiments.bench.variants import FUSED, MODES, ORIGINAL, TRAINING, VARIANTS


def test_peak_counts_what_is_freed_before_the_end():
    gc.collect()
    size = 64 << 20
    peak = peak_above_now(lambda: torch.ones(size, dtype=torch.uint8).amax())
    assert 0.9 * size < peak < 1.6 * size
    assert peak_above_now(lambda: None) < 0.1 * size


def test_saved_tensors_count_once_and_without_parameters():
    layer = nn.Linear(256, 256, bias=False)
    x = torch.randn(1000, 256)

    def forward():
        out = layer(x)
        return (out.exp() * out).sum()

    # the input of the layer, its output, and the exponential, which its own backward and the product share
    assert saved_bytes(layer, forward) == 3 * x.numel() * 4


def test_probe_in_this_process():
    where = {"model": "dgcnn", "variant": ORIGINAL, "batch": 2, "points": 64, "threads": 1, "seed": 0, "width": 0.125}
    found = probe(mode=TRAINING, **where)
    assert found["skipped"] is None
    # conv1–4 keep at least their edge features, (2, 2C, 64, 20)
    edges = 2 * 64 * 20 * 4 * (6 + 16 + 16 + 32)
    assert found["saved_bytes"] > edges
    assert probe(mode="inference", **where)["saved_bytes"] == 0
    refused = probe(mode=TRAINING, **{**where, "points": 3})
    assert refused["peak_bytes"] is None
    assert "20" in refused["skipped"]


def test_a_fresh_process(settings):
    records = measure_memory(replace(settings, models=("dgcnn",)), lambda message: None)
    assert [r["variant"] for r in records] == [ORIGINAL, FUSED]
    for r in records:
        assert (r["what"], r["mode"], r["skipped"]) == ("memory", TRAINING, None)
        assert r["peak_bytes"] >= 0
        assert r["saved_bytes"] > 0


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
    found = in_fresh_process("experiments.bench.probe.probe", {}, 1.2 if "sleep" in code else 80.0)
    assert found["peak_bytes"] is None
    assert reason in found["skipped"]


def test_all_comparisons():
    found = comparisons(Settings(models=("dgcnn", "pointconv")))
    assert len(found) == len(MODES) * (len(VARIANTS) + len(VARIANTS))
