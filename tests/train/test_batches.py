from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.train.batches import Batches, augmentation, derived_seed

AUGMENTED = {"scale": 0.25, "stretch": 0.1, "jitter": 0.02, "point_dropout": 0.5, "protocol": "AR"}


def same(a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]) -> bool:
    return a[0].equal(b[0]) and a[1].equal(b[1])


def test_an_epoch_shows_each_cloud_once_in_another_order(clouds: PointClouds, settings: Callable) -> None:
    batches = Batches(clouds, settings())
    assert (batches.steps_per_epoch, len(batches)) == (6, 12)
    first, second = (torch.cat([batches[s][0] for s in range(6 * e, 6 * e + 6)]) for e in (0, 1))
    assert not first.equal(second)
    key = [tuple(cloud.flatten().tolist()) for cloud in clouds.points]
    for epoch in (first, second):
        assert sorted(tuple(cloud.flatten().tolist()) for cloud in epoch) == sorted(key)


def test_a_batch_depends_on_its_step_alone(clouds: PointClouds, settings: Callable) -> None:
    one, other = Batches(clouds, settings(**AUGMENTED)), Batches(clouds, settings(**AUGMENTED))
    backwards = [other[s] for s in reversed(range(12))][::-1]
    assert all(same(one[s], backwards[s]) for s in range(12))
    assert not one[0][0].equal(Batches(clouds, settings(**AUGMENTED, seed=1))[0][0])


def test_workers_change_nothing(clouds: PointClouds, settings: Callable) -> None:
    alone = list(Batches(clouds, settings(**AUGMENTED)).loader(5))
    helped = list(Batches(clouds, settings(**AUGMENTED, workers=2)).loader(5))
    assert len(alone) == 7
    assert all(same(a, b) for a, b in zip(alone, helped, strict=True))


def test_processes_share_out_the_same_batch(clouds: PointClouds, settings: Callable) -> None:
    config = settings(**AUGMENTED)
    whole = Batches(clouds, config)[3]
    parts = [Batches(clouds, config, rank, 4)[3] for rank in range(4)]
    assert same(whole, (torch.cat([p for p, _ in parts]), torch.cat([labels for _, labels in parts])))


def test_points_are_the_first_or_a_random_choice(clouds: PointClouds, settings: Callable) -> None:
    fixed = Batches(clouds, settings(points=10))[0][0]
    assert fixed.shape == (16, 10, 3)
    drawn = Batches(clouds, settings(points=10, sampled_from=20))
    first, again = drawn[0][0], drawn[0][0]
    assert first.equal(again)
    assert first.shape == (16, 10, 3)
    assert not first.equal(fixed)


def test_vertical_is_the_axis_of_the_data(settings: Callable) -> None:
    config = settings(protocol="vertical")
    assert augmentation(config, "y").rotation == "y"
    assert augmentation(config, "z").rotation == "z"


def test_scale_is_symmetric(settings: Callable) -> None:
    low, high = augmentation(settings(scale=0.25), "z").scale
    assert (low, high) == pytest.approx((0.8, 1.25))


def test_too_few_clouds_or_points_are_refused(clouds: PointClouds, settings: Callable) -> None:
    with pytest.raises(InputError, match=r"^batch is 16, but there are only 8"):
        Batches(clouds.subset(range(8)), settings())
    with pytest.raises(InputError, match=r"^points is 24, but the clouds have only 12"):
        Batches(replace(clouds, points=clouds.points[:, :12].contiguous()), settings())


def test_derived_seeds_differ() -> None:
    seeds = {derived_seed(seed, stream, step) for seed in range(5) for stream in range(3) for step in range(50)}
    assert len(seeds) == 750
    assert all(0 <= seed < 2**63 for seed in seeds)
