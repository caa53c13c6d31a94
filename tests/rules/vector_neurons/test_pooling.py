"""Pooling by the mean, or by a learned direction."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_finite_gradients,
    assert_gradients,
    assert_not_equivariant,
    draw,
    features,
    rotations,
)
from reqnn.errors import InputError, NoRuleError
from rules.vector_neurons.layers import on_quaternions

WAYS = {
    "x.max": lambda x: x.max(dim=-1)[0],
    "torch.max": lambda x: torch.max(x, 2).values,
    "keepdim": lambda x: torch.max(x, 2, keepdim=True)[0].squeeze(2),
    "amax": lambda x: x.amax(2),
    "adaptive": lambda x: F.adaptive_max_pool1d(x, 1).squeeze(-1),
    "nn.AdaptiveMaxPool1d": lambda x: nn.AdaptiveMaxPool1d(1)(x).squeeze(-1),
    "window": lambda x: F.max_pool1d(x, 5).squeeze(-1),
}


@pytest.mark.parametrize("name", WAYS)
def test_mean(name):
    x = draw(0, 2, 4, 5)
    net, run = on_quaternions(WAYS[name], x)
    torch.testing.assert_close(run(x).components, x.components.mean(-1))
    assert not list(net.parameters())


@pytest.mark.parametrize("name", WAYS)
def test_max_by_a_learned_direction(name):
    x = draw(0, 2, 4, 5)
    net, run = on_quaternions(WAYS[name], x, pooling="max")
    k = torch.einsum("oc,pbcn->pbon", net.pool_direction_0, x.components)
    winner = (x.components * k).sum(0).argmax(-1, keepdim=True)
    torch.testing.assert_close(run(x).components, x.components.gather(-1, winner.expand(3, -1, -1, -1)).squeeze(-1))


def test_indices():
    """A mean is none of the vectors; the winner by a direction is one of them."""
    x = draw(0, 2, 4, 5)
    _, run = on_quaternions(lambda x: x.max(-1)[1], x)
    assert bool((run(x) == -1).all())
    _, run = on_quaternions(lambda x: x.max(-1)[1], x, pooling="max")
    assert run(x).shape == (2, 4)
    assert run(x).min() >= 0


def test_windows():
    x = draw(0, 2, 4, 6, 8)
    _, run = on_quaternions(nn.MaxPool2d(2), x)
    torch.testing.assert_close(run(x).components, F.avg_pool2d(x.components.flatten(0, 1), 2).unflatten(0, (3, 2)))
    _, run = on_quaternions(nn.MaxPool2d((6, 1)), x, pooling="max")
    assert run(x).shape == (2, 4, 1, 8)
    with pytest.raises(NoRuleError, match="no index"):
        on_quaternions(nn.MaxPool2d(2, return_indices=True), x)


def test_two_tensors():
    x = draw(0, 2, 4, 5)
    _, run = on_quaternions(lambda x: torch.maximum(x, x * 2), x)
    torch.testing.assert_close(run(x).components, 1.5 * x.components)
    _, run = on_quaternions(lambda x: torch.max(x, -2 * x), x, pooling="max")
    out = run(x)
    assert bool(((out.components == x.components) | (out.components == -2 * x.components)).all())


@given(features(), rotations, st.sampled_from(["mean", "max"]), st.sampled_from(sorted(WAYS)[:4]))
def test_equivariant(x, rotation, pooling, name):
    _, run = on_quaternions(WAYS[name], x, pooling=pooling)
    if pooling == "mean" or x.components.abs().min() > 0:  # zeros tie with what is perpendicular to its direction
        assert_equivariant(run, x, rotation)
    assert run(x).components.isfinite().all()


def test_the_original_fails():
    assert_not_equivariant(lambda x: x.max(-1, keepdim=True)[0])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_gradients(pooling):
    _, run = on_quaternions(WAYS["x.max"], draw(0, 2, 4, 5), pooling=pooling)
    assert_gradients(run, 2, 4, 5)
    assert_finite_gradients(run, 2, 4, 5)


def test_wrong_option():
    with pytest.raises(InputError, match="must be 'mean' or 'max'"):
        on_quaternions(WAYS["x.max"], draw(0, 2, 4, 5), pooling="sum")
