"""The benchmark of networks in other people's styles, at sizes that take no time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.bench_styles import BenchStyles, table


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


def test_it_is_a_module_of_its_own():
    command = [sys.executable, "-m", "experiments.bench_styles", "--help"]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert "--repeats" in done.stdout
