import torch

from experiments.bench.kernels import (
    BALL,
    DENSITY,
    FEATURES,
    FPS,
    KD_TREE,
    KERNEL,
    KNN,
    ORDINARY,
    REFERENCE,
    all_ways,
    measure_kernels,
)
from experiments.bench.variants import clouds
from reqnn.kernels.run import switched


def test_records(settings):
    records = measure_kernels(settings, lambda message: None)
    assert list(dict.fromkeys(r["kernel"] for r in records)) == [FPS, KNN, FEATURES, BALL, DENSITY]
    for r in records:
        assert r["skipped"] is None
        assert len(r["seconds"]) == 2
        assert r["relative"]["median"] > 0
    assert [r["variant"] for r in records if r["kernel"] == KNN] == [KERNEL, REFERENCE, ORDINARY, KD_TREE]


def test_all_ways_find_the_same(settings):
    ways = all_ways(clouds(2, 200)[0], settings)
    for kernel, calls in ways.items():
        found = calls[KERNEL]()
        with switched(False):
            reference = calls[REFERENCE]()
        torch.testing.assert_close(found, reference)
        if kernel == DENSITY:
            torch.testing.assert_close(found, calls[ORDINARY](), rtol=1e-3, atol=0)
        if kernel in (KNN, FEATURES):
            assert (found == calls[ORDINARY]()).float().mean() > 0.98
        if kernel == KNN:
            assert (found == torch.stack([torch.as_tensor(x) for x in calls[KD_TREE]()])).float().mean() > 0.98


def test_balls_of_the_tree_hold_the_same_points(settings):
    calls = all_ways(clouds(1, 300)[0], settings)[BALL]
    ours, tree = calls[KERNEL]()[0], torch.as_tensor(calls[KD_TREE]()[0])
    tree = torch.where(tree == 300, tree[:, :1], tree)
    assert (ours == tree).float().mean() > 0.98
