"""Writing at indexed places: as on each part, into real zeros under the same name, maxima as the rule set has them."""

import pytest
import torch

from equivariance import cloud, draw, rotation_matrix, turned
from reqnn import NoRuleError
from reqnn.rules import get_rules
from reqnn.tensor import QuaternionTensor, from_real
from reqnn.tensor.context import Context

X = draw(0, 6, 4)
PLACE = torch.tensor([0, 1, 1, 0, 3, 3])
WIDE = PLACE.unsqueeze(1).expand(6, 4)


def zeros(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


SUMS = {
    "index_add_": lambda x: zeros(5, 4).index_add_(0, PLACE, x),
    "index_add": lambda x: torch.index_add(zeros(5, 4), 0, PLACE, x),
    "scatter_add_": lambda x: x.new_zeros(5, 4).scatter_add_(0, WIDE, x),
    "scatter_add": lambda x: torch.scatter_add(zeros(5, 4), 0, WIDE, x),
    "scatter_reduce sum": lambda x: zeros(5, 4).scatter_reduce_(0, WIDE, x, reduce="sum"),
    "scatter_reduce mean": lambda x: x.new_zeros(5, 4).scatter_reduce(0, WIDE, x, "mean", include_self=False),
    "mean with itself": lambda x: x.new_zeros(5, 4).scatter_reduce(0, WIDE, x, "mean"),
    "index_put_": lambda x: zeros(5, 4).index_put_((PLACE,), x, accumulate=True),
    "scatter_": lambda x: zeros(5, 4).scatter_(0, torch.arange(4).unsqueeze(1).expand(4, 4), x),
    "index_copy_": lambda x: zeros(5, 4).index_copy_(0, torch.tensor([3, 0]), x[:2]),
    "assignment": lambda x: _assigned(zeros(5, 4), x),
    "copy_": lambda x: zeros(6, 4).copy_(x),
    "+=": lambda x: zeros(6, 4).add_(x),
    "zeros +": lambda x: zeros(6, 4) + x,
    "zeros beside": lambda x: torch.cat([x, zeros(1, 4)]),
    "where": lambda x: torch.where(PLACE.unsqueeze(1) > 0, x, zeros(1)),
    "segment_reduce": lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 0, 4])),
    "segment_reduce mean": lambda x: torch.segment_reduce(x, "mean", lengths=torch.tensor([1, 5])),
    "F.embedding": lambda x: torch.nn.functional.embedding(PLACE, x),
}


def _assigned(out, x):
    out[0] = x[1]
    out[PLACE[1:3] + 1] = x[:2]
    return out


@pytest.mark.parametrize("name", SUMS)
def test_as_on_each_part(name):
    given = SUMS[name](X)
    assert isinstance(given, QuaternionTensor)
    expected = torch.stack([SUMS[name](part) for part in X.components])
    assert torch.allclose(given.components, expected, atol=1e-14)
    assert expected.abs().max() > 0.1


def test_zeros_become_quaternions_under_their_name():
    out = zeros(5, 4)
    same = out.index_add_(0, PLACE, X)
    assert same is out
    assert torch.equal(out.squared_norm(), SUMS["index_add"](X).squared_norm())
    out.index_add_(0, PLACE, X)
    assert torch.allclose(out.components, 2 * SUMS["index_add"](X).components)


def test_gradients_reach_what_was_written():
    components = X.components.clone().requires_grad_()
    x = QuaternionTensor(components)
    x.new_zeros(5, 4).scatter_reduce_(0, WIDE, x, reduce="amax").squared_norm().sum().backward()
    assert (components.grad.abs().sum((0, 2)) > 0).sum() >= 3


def test_coordinates_stay_coordinates():
    points = cloud(0, 6, 3)
    assert points.axis is not None
    out = zeros(5, 3).index_add_(0, PLACE, points)
    assert (out.axis, out.vectors, tuple(out.shape)) == (1, "v", (5, 3))
    wide = zeros(5, 3).scatter_add_(0, PLACE.unsqueeze(1).expand(6, 3), points)
    assert torch.equal(wide.components, out.components)
    out = zeros(2, 6, 3)
    out[1] = points
    assert (out.axis, out.vectors) == (2, "v")


def longest(x, places):
    """The definition, channel by channel."""
    out = torch.zeros(3, places, x.shape[1], dtype=torch.float64)
    for place in range(places):
        chosen = x.components[:, place == PLACE]
        for channel in range(x.shape[1] if chosen.shape[1] else 0):
            winner = chosen[:, :, channel].norm(dim=0).argmax()
            out[:, place, channel] = chosen[:, winner, channel]
    return out


MAXIMA = {
    "scatter_reduce": lambda x: x.new_zeros(5, 4).scatter_reduce(0, WIDE, x, "amax", include_self=False),
    "with zeros": lambda x: x.new_zeros(5, 4).scatter_reduce(0, WIDE, x, "amax"),
    "in place": lambda x: zeros(5, 4).scatter_reduce_(0, WIDE, x, reduce="amax", include_self=False),
    "index_reduce": lambda x: zeros(5, 4).index_reduce_(0, PLACE, x, "amax"),
}


@pytest.mark.parametrize("name", MAXIMA)
def test_the_longest(name):
    given = MAXIMA[name](X)
    assert torch.equal(given.components, longest(X, 5))
    rotation = rotation_matrix(3)
    assert torch.allclose(MAXIMA[name](turned(X, rotation)).components, turned(given, rotation).components)


def test_a_maximum_of_runs():
    given = torch.segment_reduce(X, "max", lengths=torch.tensor([2, 4]))
    assert torch.equal(given.components[:, 0], X[:2].max(0)[0].components)
    assert torch.equal(given.components[:, 1], X[2:].max(0)[0].components)


def test_a_maximum_is_that_of_the_rule_set():
    """By "full" the largest real part, and the mean of the imaginary ones, brought to unit size."""
    generator = torch.Generator().manual_seed(0)
    x = QuaternionTensor(torch.randn(4, 6, 4, generator=generator, dtype=torch.float64), context=Context(get_rules("full")))
    x.channel_axis = 1
    given = x.new_zeros(5, 4).scatter_reduce_(0, WIDE, x, reduce="amax", include_self=False)
    usual = x[torch.tensor([0, 3])].max(0)[0]
    assert torch.allclose(given.components[0, 0], x.components[0, [0, 3]].amax(0))
    assert torch.allclose(given.components[:, 0], usual.components, atol=1e-12)
    assert torch.equal(given.components[:, 2], torch.zeros(4, 4, dtype=torch.float64))


REFUSED = {
    "numbers that are there": lambda x: torch.ones(5, 4).index_add_(0, PLACE, x),
    "numbers in the way": lambda x: (lambda out: (out.__setitem__(0, x[0]), out.sum(0)))(torch.ones(6, 4)),
    "products": lambda x: zeros(5, 4).scatter_reduce(0, WIDE, x, "prod"),
    "the smallest": lambda x: zeros(5, 4).scatter_reduce(0, WIDE, x, "amin"),
    "real numbers": lambda x: x.scatter_add(0, WIDE, zeros(6, 4)),
    "a view of zeros": lambda x: zeros(2, 5, 4)[0].index_add_(0, PLACE, x),
    "zeros with a view": lambda x: (lambda out: (out[0], out.index_add_(0, PLACE, x)))(zeros(5, 4)),
    "along coordinates": lambda x: zeros(6, 6).scatter_add_(1, torch.zeros(6, 3).long(), from_real(zeros(6, 3), 1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    with pytest.raises(NoRuleError):
        REFUSED[name](X)
