"""The benchmark of networks in other people's styles, at sizes that take no time."""

import json

import pytest

from experiments.bench_styles import Settings, compared, main, table


def test_ratios_are_taken_within_each_round():
    ratio = compared([2.0, 30.0, 4.0], [1.0, 10.0, 1.0])["ratio"]
    assert ratio == {"median": 3.0, "low": 2.5, "high": 3.5}
    assert compared(None, [1.0])["ratio"] is None


def test_a_failure_is_shown():
    where = {"style": "dgcnn", "batch": 1, "mode": "training", "ratio": None}
    records = [
        {**where, "variant": "original", "seconds": [0.5, 0.7, 0.6], "failed": None},
        {**where, "variant": "paper", "seconds": None, "failed": "MemoryError"},
    ]
    assert table(records, ("paper",)).splitlines()[-1] == "| dgcnn | 1 | training | 0.600 s | failed |"


@pytest.mark.slow
def test_results_are_written(tmp_path):
    out = tmp_path / "results" / "bench_styles.json"
    main(
        Settings(
            styles=("dgcnn",), rules=("paper",), batch=(2,), points=64, repeats=2, threads=1, small=True, memory=True, out=out
        )
    )
    results = json.loads(out.read_text())
    assert results["settings"]["seed"] == 0
    assert {"versions", "commit"} <= set(results)
    assert [(r["mode"], r["variant"]) for r in results["records"]] == [
        (mode, variant) for mode in ("inference", "training", "memory") for variant in ("original", "paper")
    ]
    assert all(r["failed"] is None for r in results["records"])
    assert out.with_suffix(".md").read_text().count("dgcnn") == 3
