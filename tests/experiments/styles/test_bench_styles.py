"""The benchmark of networks in other people's styles, at sizes that take no time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from experiments.__main__ import main
from experiments.bench.multiplications import multiplications
from experiments.bench_styles import BenchStyles, table
from reqnn.kernels.products import times


def test_a_failure_is_shown():
    where = {"style": "dgcnn", "batch": 1, "mode": "training", "relative": None}
    records = [
        {**where, "variant": "original", "seconds": [0.5, 0.7, 0.6], "skipped": None},
        {**where, "variant": "paper", "seconds": [], "skipped": "MemoryError"},
    ]
    found = table(records, BenchStyles(rules=("paper",)))
    assert [str(cell) for cell in found.rows[0]] == ["dgcnn", "1", "training", "0.600 s", "failed"]
    assert found.notes == ["dgcnn, 1, training, paper: MemoryError"]


@pytest.mark.slow
def test_results_are_written(tmp_path):
    out = tmp_path / "results" / "bench_styles.json"
    words = ["--styles", "dgcnn", "--rules", "paper", "--batch", "2", "--points", "64", "--repeats", "2", "--threads", "1"]
    assert main(["bench-styles", *words, "--small", "--memory", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert results["settings"]["seed"] == 0
    assert {"versions", "commit"} <= set(results)
    assert [(r["mode"], r["variant"]) for r in results["rows"]] == [
        (mode, variant) for mode in ("inference", "training", "memory") for variant in ("original", "paper")
    ]
    assert all(r["skipped"] is None for r in results["rows"])
    assert out.with_suffix(".md").read_text().count("| dgcnn |") == 3


def test_multiplications_are_counted():
    rows, layer, convolution = torch.randn(600, 32), torch.nn.Linear(32, 48), torch.nn.Conv1d(3, 8, 1, bias=False)

    def train():
        convolution(torch.randn(2, 3, 50)).sum().backward()

    with torch.no_grad():
        assert multiplications(lambda: layer(rows)) == multiplications(lambda: times(rows, layer.weight)) == 600 * 32 * 48
    assert multiplications(train) == 2 * (2 * 50 * 3 * 8)  # forward, and the gradient of the weight: the input needs none


@pytest.mark.slow
def test_products_stand_in_rows_of_their_own(tmp_path):
    out = tmp_path / "bench_styles.json"
    words = ["--styles", "dgcnn", "--rules", "paper", "--batch", "2", "--points", "64", "--repeats", "1", "--threads", "1"]
    assert main(["bench-styles", *words, "--small", "--products", "--mode", "inference", "--out", str(out)]) == 0
    original, revised = json.loads(out.read_text())["rows"][2:]
    assert original["mode"] == revised["mode"] == "inference, products"
    assert revised["relative"]["median"] == revised["multiplications"] / original["multiplications"]
    assert original["multiplications"] > 0


def test_it_is_a_module_of_its_own():
    command = [sys.executable, "-m", "experiments.bench_styles", "--help"]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert "--repeats" in done.stdout
