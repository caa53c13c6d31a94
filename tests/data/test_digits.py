import pytest
import torch

from reqnn.data import digits
from reqnn.errors import InputError


def test_shapes_and_scale():
    clouds, labels = digits("test", points=64)
    assert clouds.shape == (360, 64, 3)
    assert clouds.dtype == torch.float32
    assert labels.shape == (360,)
    assert labels.dtype == torch.int64
    assert set(labels.tolist()) == set(range(10))
    assert torch.allclose(clouds.mean(1), torch.zeros(3), atol=1e-6)
    assert torch.allclose(clouds.norm(dim=-1).amax(1), torch.ones(360))


def test_splits_are_apart():
    train, labels = digits("train", points=16)
    test, _ = digits("test", points=16)
    assert len(train) == len(labels) == 1437
    assert not any(torch.equal(a, b) for a in test[:20] for b in train)


def test_the_same_each_time_whatever_else_is_drawn():
    few, labels = digits("test", points=32, limit=3)
    torch.manual_seed(5)
    many, all_labels = digits("test", points=32, limit=10)
    assert torch.equal(few, many[:3])
    assert torch.equal(labels, all_labels[:3])


def test_values_are_fixed():
    """Numbers that published results depend on; a change here is a new dataset."""
    clouds, labels = digits("train", points=4, limit=1)
    assert labels.tolist() == [0]
    expected = [
        [-0.014729, 0.66821, 0.072221],
        [0.431824, -0.901899, -0.010354],
        [-0.201492, 0.628412, -0.104076],
        [-0.215603, -0.394724, 0.042208],
    ]
    assert torch.allclose(clouds[0], torch.tensor(expected), atol=1e-6)


def test_digits_are_upright():
    """A seven has its bar above: most of its points lie in the upper half."""
    clouds, labels = digits("train", points=256, limit=200)
    seven = clouds[labels == 7].flatten(0, 1)
    one = clouds[labels == 1].flatten(0, 1)
    assert seven[:, 1].quantile(0.95) > seven[:, 2].quantile(0.95)
    assert one[:, 1].std() > one[:, 0].std() > one[:, 2].std()


@pytest.mark.parametrize(("split", "points"), [("validation", 8), ("test", 0)])
def test_bad_input(split, points):
    with pytest.raises(InputError, match="split" if points else "points"):
        digits(split, points)
