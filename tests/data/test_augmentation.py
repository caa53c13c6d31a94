import pytest
import torch

from reqnn.data import Augmentation
from reqnn.data.augmentation import jitter, point_dropout, random_scale, random_subset, shuffle
from reqnn.errors import InputError

CLOUDS = torch.randn(8, 100, 3, generator=torch.Generator().manual_seed(1))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_default_changes_nothing():
    assert Augmentation()(CLOUDS, seeded()) is CLOUDS


def test_everything_together_is_a_function_of_the_generator():
    augment = Augmentation(scale=(0.8, 1.25), stretch=(0.9, 1.1), jitter=0.01, dropout=0.5, rotation="AR", shuffle=True)
    before = CLOUDS.clone()
    first, again, other = (augment(CLOUDS, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(CLOUDS, before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == CLOUDS.shape
    assert first.dtype == CLOUDS.dtype
    torch.manual_seed(5)
    state = torch.get_rng_state()
    augment(CLOUDS, seeded())
    assert torch.equal(torch.get_rng_state(), state)  # the global generator is left alone
    assert augment(CLOUDS).shape == CLOUDS.shape  # and used where none is given


def test_it_is_a_value():
    assert Augmentation(jitter=0.01) == Augmentation(jitter=0.01)
    assert hash(Augmentation()) == hash(Augmentation())


def test_scale_is_one_factor_a_cloud():
    factor = random_scale(CLOUDS, seeded(), 0.5, 2.0) / CLOUDS
    assert torch.allclose(factor, factor[:, :1, :1].expand_as(factor), rtol=1e-5)
    many = random_scale(torch.ones(4000, 1, 3), seeded(), 0.5, 2.0)[:, 0, 0]
    assert 0.5 <= float(many.min()) < 0.51
    assert 1.99 < float(many.max()) <= 2.0
    assert float(many.mean()) == pytest.approx(1.25, abs=0.03)


def test_stretch_is_one_factor_an_axis_of_each_cloud():
    factors = random_scale(CLOUDS, seeded(), 0.5, 2.0, axes=3) / CLOUDS
    assert torch.allclose(factors, factors[:, :1].expand_as(factors), rtol=1e-5)
    assert len(factors[:, 0].flatten().unique()) == 3 * len(CLOUDS)
    many = random_scale(torch.ones(4000, 1, 3), seeded(), 0.5, 2.0, axes=3)
    assert 0.5 <= float(many.min()) < 0.51
    assert 1.99 < float(many.max()) <= 2.0
    assert torch.equal(Augmentation(stretch=(0.5, 2.0))(CLOUDS, seeded()), random_scale(CLOUDS, seeded(), 0.5, 2.0, axes=3))


def test_jitter_is_normal_and_clipped():
    noise = jitter(torch.zeros(50, 400, 3), seeded(), 0.02, 0.05)
    assert float(noise.std()) == pytest.approx(0.02, rel=0.03)
    assert float(noise.abs().max()) == pytest.approx(0.05)


def test_dropped_points_move_onto_the_first_that_is_kept():
    dropped = point_dropout(CLOUDS, seeded(), 0.8)
    for cloud, found in zip(CLOUDS, dropped, strict=True):
        kept = (found == cloud).all(1)
        assert 1 <= int(kept.sum()) <= 100
        assert torch.equal(found[~kept], cloud[kept][0].expand(int((~kept).sum()), 3))
    many = point_dropout(torch.rand(300, 200, 3, generator=seeded()), seeded(), 0.8)
    gone = 1 - torch.tensor([len(cloud.unique(dim=0)) for cloud in many]) / 200
    assert float(gone.mean()) == pytest.approx(0.4, abs=0.04)  # a share uniform between 0 and 0.8
    assert float(gone.max()) < 0.9


def test_at_least_one_point_is_kept():
    single = torch.randn(2000, 1, 3, generator=seeded())
    assert torch.equal(point_dropout(single, seeded(), 0.999), single)


def test_a_random_subset():
    found = random_subset(CLOUDS, seeded(), 30)
    assert found.shape == (8, 30, 3)
    for cloud, some in zip(CLOUDS, found, strict=True):
        assert len({tuple(point) for point in some.tolist()} & {tuple(point) for point in cloud.tolist()}) == 30
    with pytest.raises(InputError, match="keep is 101"):
        random_subset(CLOUDS, seeded(), 101)


def test_shuffling_keeps_the_set():
    found = shuffle(CLOUDS, seeded())
    assert not torch.equal(found, CLOUDS)
    assert torch.equal(found.sort(1).values, CLOUDS.sort(1).values)
    assert shuffle(CLOUDS[:, :0], seeded()).shape == (8, 0, 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": (0.0, 1.0)},
        {"scale": (1.2, 0.8)},
        {"stretch": (1.5, 0.5)},
        {"jitter": -0.1},
        {"jitter": float("nan")},
        {"clip": -1.0},
        {"dropout": 1.0},
        {"rotation": "so3"},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(InputError):
        Augmentation(**settings)
