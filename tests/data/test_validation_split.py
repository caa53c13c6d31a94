import pytest
import torch

from reqnn.data import PointClouds, split_validation
from reqnn.errors import InputError


def make(counts, groups=None, seed=0):
    labels = torch.tensor([label for label, count in enumerate(counts) for _ in range(count)], dtype=torch.int64)
    points = torch.randn(len(labels), 8, 3, generator=torch.Generator().manual_seed(seed))
    groups = None if groups is None else torch.tensor(groups)
    return PointClouds(points, labels, tuple("abcdef"[: len(counts)]), "mine", "train", groups=groups)


def numbers(whole, part):
    return [int((whole.points == cloud).all(-1).all(-1).nonzero()[0]) for cloud in part.points]


def test_each_class_gives_its_share():
    whole = make([100, 40, 7])
    train, validation = split_validation(whole, 0.1)
    assert validation.counts == {"a": 10, "b": 4, "c": 1}
    assert train.counts == {"a": 90, "b": 36, "c": 6}
    assert (train.split, validation.split) == ("train", "validation")
    found = numbers(whole, train) + numbers(whole, validation)
    assert sorted(found) == list(range(147))
    assert numbers(whole, validation) == sorted(numbers(whole, validation))


def test_the_seed_decides():
    whole = make([50, 50])
    first, again, other = (numbers(whole, split_validation(whole, 0.2, seed)[1]) for seed in (0, 0, 1))
    assert first == again != other


def test_values_are_fixed():
    """Numbers that published results depend on."""
    whole = make([10, 10])
    assert numbers(whole, split_validation(whole, 0.2)[1]) == [0, 8, 11, 16]


def test_copies_stay_together():
    whole = make([20, 20])
    copies = torch.cat([whole.points, whole.points[:10].flip(1)])
    whole = PointClouds(copies, torch.cat([whole.labels, torch.ones(10, dtype=torch.int64)]), ("a", "b"), "mine", "train")
    _, validation = split_validation(whole, 0.3)
    chosen = set(numbers(whole, validation)) | {
        int((whole.points == cloud).all(-1).all(-1).nonzero()[-1]) for cloud in validation.points
    }
    assert all((i in chosen) == (i + 40 in chosen) for i in range(10))
    assert 10 <= len(validation) <= 18


def test_given_groups_stay_together():
    whole = make([12], groups=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    train, validation = split_validation(whole, 0.25)
    assert len(validation) == 3
    assert len(validation.groups.unique()) == 1
    assert not set(train.groups.tolist()) & set(validation.groups.tolist())


def test_a_class_of_one_object_stays_in_train():
    train, validation = split_validation(make([10, 1]), 0.5)
    assert validation.counts["b"] == 0
    assert train.counts["b"] == 1
    train, validation = split_validation(make([10, 3], groups=[*range(10), 11, 11, 11]), 0.5)
    assert train.counts["b"] == 3


def test_an_empty_class_is_empty_on_both_sides():
    train, validation = split_validation(make([10, 0, 10]))
    assert train.counts["b"] == validation.counts["b"] == 0


def test_some_of_each_class_always_stay():
    train, _ = split_validation(make([2, 3]), 0.99)
    assert min(train.counts.values()) >= 1


@pytest.mark.parametrize(("fraction", "seed"), [(0.0, 0), (1.0, 0), (0.1, -1)])
def test_bad_arguments(fraction, seed):
    with pytest.raises(InputError):
        split_validation(make([4]), fraction, seed)


def test_nothing_to_split():
    with pytest.raises(InputError, match="no class has two objects"):
        split_validation(make([1, 1]))
