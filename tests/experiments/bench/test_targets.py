import pytest

from experiments.bench.kernels import KERNEL, KNN, ORDINARY, REFERENCE
from experiments.bench.targets import Target, targets
from experiments.bench.variants import FUSED, ORIGINAL, PLAIN, TRAINING


def find(found, *words):
    (target,) = [t for t in found if all(word in t.name for word in words)]
    return target


def test_nothing_measured_nothing_met():
    found = targets([])
    assert len(found) == 28
    assert len({t.name for t in found}) == 28
    assert {t.met for t in found} == {None}
    assert found[0].to_dict()["value"] is None


def test_speed(timed):
    records = [timed(ORIGINAL, [3.0, 6.0]), timed(PLAIN, [10.0, 20.0]), timed(FUSED, [1.0, 2.0])]
    found = targets(records)
    faster = find(found, "dgcnn, inference, batch 4", "original / fused")
    assert (faster.value.median, faster.met, faster.asked, faster.at_least) == (3.0, True, 2.5, True)
    against_plain = find(found, "dgcnn, inference, batch 4", "plain / fused")
    assert (against_plain.value.median, against_plain.met) == (10.0, False)
    assert find(found, "dgcnn, inference, batch 16", "original / fused").met is None


def test_other_sizes_do_not_count(timed):
    assert all(t.met is None for t in targets([timed(ORIGINAL, [3.0], points=512), timed(FUSED, [1.0], points=512)]))


@pytest.mark.parametrize(("seconds", "met"), [(1.4, True), (1.6, False)])
def test_time_of_the_others(timed, seconds, met):
    where = {"model": "pointconv", "mode": TRAINING, "batch": 16}
    found = targets([timed(ORIGINAL, [1.0], **where), timed(FUSED, [seconds], **where)])
    assert find(found, "pointconv", TRAINING, "batch 16").met is met


@pytest.mark.parametrize(("seconds", "met"), [(1.9, True), (2.1, False)])
def test_time_of_a_rule_set(timed, seconds, met):
    where = {"mode": TRAINING, "batch": 16}
    records = [{**timed(variant, [value], **where), "what": "rules"} for variant, value in ((ORIGINAL, 1.0), ("full", seconds))]
    assert find(targets(records), "`full` / original", "batch 16").met is met
    assert find(targets(records), "original / fused REQNN", TRAINING, "batch 16").met is None  # not of this part


def test_memory_kernels_growth():
    memory = {"what": "memory", "model": "dgcnn", "mode": TRAINING, "batch": 16, "points": 1024}
    kernel = {"what": "kernels", "kernel": KNN, "points": 4096}
    growth = {"what": "growth", "name": KNN, "exponent": {"median": 1.1, "low": 1.0, "high": 1.2}}
    records = [
        {**memory, "variant": FUSED, "peak_bytes": 10},
        {**memory, "variant": ORIGINAL, "peak_bytes": 40},
        {**kernel, "variant": KERNEL, "seconds": [1.0]},
        {**kernel, "variant": REFERENCE, "seconds": [6.0]},
        {**kernel, "variant": ORDINARY, "seconds": [4.0]},
        {**growth, "sizes": [1024, 32768]},
    ]
    found = targets(records)
    assert find(found, "peak memory", "batch 16").met is True
    assert find(found, KNN, "plain torch / kernel").met is True
    assert find(found, KNN, "ordinary function / kernel").met is False
    assert find(found, KNN, "exponent").met is True
    records[-1]["sizes"] = [1024, 4096]
    assert find(targets(records), KNN, "exponent").met is None
    records[0]["peak_bytes"] = None
    assert find(targets(records), "peak memory", "batch 16").met is None


def test_to_dict():
    data = Target("x", 2.0, True, None).to_dict()
    assert data == {"name": "x", "relation": "at least", "asked": 2.0, "value": None, "met": None}
