"""Loops on groups of neighbours against their plain-torch twins: values and gradients in float64."""

from itertools import pairwise

import pytest
import torch

from reqnn.kernels import edges, full_edges, full_layers, run
from reqnn.kernels.full_edges import Activation, Measured
from reqnn.kernels.full_layers import First
from reqnn.kernels.groups import Groups
from reqnn.kernels.power import Power

M, P, K, C, OUT = 11, 7, 5, 6, 9


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def groups(padded: bool) -> Groups:
    """Groups of different sizes, or of one size."""
    counts = torch.tensor([5, 1, 3, 5, 2, 4, 5]) if padded else torch.full((P,), K)
    index = torch.stack([torch.randperm(M, generator=torch.Generator().manual_seed(i))[:K] for i in range(P)])
    real = torch.arange(K) < counts[:, None]
    index = torch.where(real, index, index[:, :1])
    start = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    weight = torch.ones(int(start[-1]), dtype=torch.float64)
    weight[start[:-1]] = (1 + K - counts).double()
    return Groups(index, index[real].int(), start, weight)


def inputs(kind: str) -> tuple[list[torch.Tensor | None], Groups]:
    """y and z of gathered edges, or rows that are stored and no z."""
    found = groups(padded=kind != "uniform")
    if kind == "stored":
        return [numbers(found.rows, 3, C), None], found.stored
    return [numbers(M, 3, C), numbers(P, 3, C, seed=1)], found


KINDS = ("uniform", "padded", "stored")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Rows of a few centres at a time."""
    monkeypatch.setattr("reqnn.kernels.groups.ROWS", 10)


POWER = Power(torch.rand(C, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.5, 1e-5)


def compare(function, tensors):
    """Values and gradients with loops and without."""
    results = []
    for on in (True, False):
        leaves = [None if x is None else x.clone().requires_grad_() for x in tensors]
        with run.switched(on):
            out = function(*leaves)
            out = out if isinstance(out, tuple) else (out,)
            real = [x for x in out if x.is_floating_point()]
            total = sum((x.double() * numbers(*x.shape, seed=9)).sum() + x.double().square().sum() for x in real)
            wanted = [x for x in leaves if x is not None]
            results.append((out, torch.autograd.grad(total, wanted)))
    for ours, theirs in zip(*results, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [0.0, 1.0])
@pytest.mark.parametrize("measured", [True, False])
def test_linear(kind, c, measured):
    (y, z), found = inputs(kind)
    mean = (edges.rows(y, z, found).square().sum(1) * found.weight[:, None]).sum(0) / found.count
    power = Power(mean, 1e-5, found.count) if measured else POWER
    compare(lambda y, z, w: edges.linear(y, z, w, power, c, found), [y, z, numbers(OUT, C)])


@pytest.mark.parametrize("kind", KINDS)
def test_linear_measures_its_power(kind):
    (y, z), found = inputs(kind)
    for on in (True, False):
        with run.switched(on):
            sums = torch.zeros(OUT, dtype=torch.float64)
            out = edges.linear(y, z, numbers(OUT, C), POWER, 1.0, found, sums)
            torch.testing.assert_close(sums, edges.total_power(out, None, found.stored))


@pytest.mark.parametrize("kind", ["uniform", "padded"])
@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("first", ["gathered", "stored"])
def test_sum_of_two(kind, measured, first):
    """Of edges and of rows that are stored, with chunks of a few rows."""
    (y, z), found = inputs(kind)
    mean = (edges.rows(y, z, found).square().sum(1) * found.weight[:, None]).sum(0) / found.count
    power = Power(mean, 1e-5, found.count) if measured else POWER

    def total(y, z, v):
        a, b = (y, z, found, power, 1.0), (v, None, found.stored, POWER, 0.0)
        return edges.total(*((a, b) if first == "gathered" else (b, a)), -0.5)

    compare(total, [y, z, numbers(found.rows, 3, C, seed=4)])


@pytest.mark.parametrize("kind", KINDS)
def test_longest_linear(kind):
    (y, z), found = inputs(kind)
    compare(lambda y, z, w: edges.longest_linear(y, z, w, POWER, 1.0, found), [y, z, numbers(OUT, C)])


@pytest.mark.parametrize("kind", ["uniform", "padded"])
@pytest.mark.parametrize("channels", [3, 40, 70])
def test_longest(kind, channels):
    found = groups(kind == "padded")
    tensors = [numbers(M, 3, channels), numbers(P, 3, channels, seed=1)]
    compare(lambda y, z: edges.longest(y, z, found, True), tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_ties_have_a_common_direction(kind):
    """Neighbours that are images of a few vectors: many are equally long, some cancel."""
    turned = torch.tensor([[1, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, -1], [1, 1, -1]], dtype=torch.float64)
    found = groups(padded=kind != "uniform")
    rows = found.rows if kind == "stored" else M
    y = numbers(3, 3, C).repeat_interleave(6, 0)[:rows] * turned.repeat(3, 1)[:rows, :, None]
    y, z, found = (numbers(rows, 3, C), None, found.stored) if kind == "stored" else (y, numbers(P, 3, C, seed=1) * 0, found)
    y = y if z is not None else numbers(1, 3, C) * turned.repeat(5, 1)[:rows, :, None]
    with run.switched(False):
        members = edges.rows(y, z, found)[found.place].square().sum(2)
    assert int((members >= members.amax(1, keepdim=True) * (1 - 1e-12)).sum()) > P * C + 10, "there are ties"
    compare(lambda y, z: edges.longest(y, z, found, True)[:2], [y, z])
    compare(lambda y, z, w: edges.longest_linear(y, z, w, POWER, 1.0, found)[:2], [y, z, numbers(OUT, C)])


@pytest.mark.parametrize("kind", KINDS)
def test_total_power(kind):
    (y, z), found = inputs(kind)
    expected = (edges.rows(y, z, found).square().sum(1) * found.weight[:, None]).sum(0)
    torch.testing.assert_close(edges.total_power(y, z, found), expected)


def test_outer_sum():
    (y, z), found = inputs("uniform")
    compare(lambda y, z, w: edges.outer_sum(y, z, w, POWER, 1.0, found), [y, z, numbers(P, K, 4)])


def test_weighted_sum():
    index = groups(False).index
    compare(lambda y, w: edges.weighted_sum(y, index, w), [numbers(M, 3, C), numbers(P, K, seed=3)])


@pytest.mark.parametrize("kind", ["uniform", "padded"])
@pytest.mark.parametrize("kinds", [2, 3])
def test_first_layer_of_full_quaternions(kind, kinds):
    found, count = groups(kind == "padded"), C // kinds
    (y, z), width = inputs(kind)[0], kinds * count
    tensors = [y[..., :width], z[..., :width], numbers(M, OUT, seed=3), numbers(P, OUT, seed=4), numbers(OUT, width, seed=5)]
    compare(lambda p, q, a, b, u: First(p, q, a, b, u, count, y, z, found).stored()[0], tensors)


ACTIVATIONS = [Activation(), Activation(1e-3), Activation(0.0, True, 0.2), Activation(1e-3, True, 0.0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_later_layer_of_full_quaternions(kind, activation):
    (y, z), found = inputs(kind)
    count, before = 2, [numbers(found.rows, C, seed=5), y, z, numbers(C, seed=6), numbers(C, seed=7)]
    shapes = [(OUT, C), (OUT, C), (3 * count, C), (OUT, 3 * count), (OUT,)]
    weights = [numbers(*shape, seed=8 + i) for i, shape in enumerate(shapes)]
    compare(lambda *x: full_layers.linear((*x[:5], activation, found), x[5:], count), [*before, *weights])


@pytest.mark.parametrize("kind", ["uniform", "padded"])
@pytest.mark.parametrize("first", ["gathered", "stored"])
def test_sum_of_full_quaternions(kind, first):
    """Of edges and of rows that are stored."""
    (y, z), found = inputs(kind)
    one = [numbers(found.rows, C, seed=5), y, z, numbers(C, seed=6), numbers(C, seed=7)]
    two = [numbers(found.rows, C, seed=8), numbers(found.rows, 3, C, seed=9), None, numbers(C, seed=10), numbers(C, seed=11)]

    def total(*x):
        a, b = (*x[:5], ACTIVATIONS[3], found), (*x[5:], ACTIVATIONS[1], found.stored)
        return full_layers.total(*((a, b) if first == "gathered" else (b, a)), -0.5)

    compare(total, [*one, *two])


@pytest.mark.parametrize("kind", KINDS)
def test_batch_statistics(kind):
    """The loops take their derivative to the rows by hand, plain torch by a graph."""
    (y, z), found = inputs(kind)

    def normed(s, y, z, gamma, beta):
        mean, square = full_edges.moments(s, found) / found.count
        variance = square - mean.square() + 1e-3
        scale = gamma * variance.rsqrt()
        measured = None if mean.requires_grad else Measured(mean, variance, found.count)
        return full_edges.pooled(s, y, z, scale, beta - mean * scale, Activation(1e-3, True, 0.2, measured), found)

    compare(normed, [numbers(found.rows, C, seed=5), y, z, numbers(C, seed=6), numbers(C, seed=7)])


def test_outer_sum_of_full_quaternions():
    (y, z), found = inputs("uniform")
    tensors = [numbers(found.rows, C, seed=5), y, z, numbers(C, seed=6), numbers(C, seed=7), numbers(P, found.size, 4, seed=8)]
    compare(lambda *x: full_layers.outer_sum((*x[:5], ACTIVATIONS[3], found), x[5]), tensors)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activated_and_pooled(kind, activation):
    (y, z), found = inputs(kind)
    tensors = [numbers(found.rows, C, seed=5), y, z, numbers(C, seed=6), numbers(C, seed=7)]
    compare(lambda s, y, z, a, b: full_edges.activated(s, y, z, a, b, activation, found), tensors)
    compare(lambda s, y, z, a, b: full_edges.pooled(s, y, z, a, b, activation, found), tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_tied_real_parts_share_the_gradient(kind):
    (y, z), found = inputs(kind)
    s = numbers(found.rows, C, seed=5).round() * (1 + 1e-14 * numbers(found.rows, C, seed=8))
    tensors = [s, y, z, numbers(C, seed=6), numbers(C, seed=7)]
    compare(lambda s, y, z, a, b: full_edges.pooled(s, y, z, a, b, ACTIVATIONS[0], found)[:2], tensors)
    of_s = torch.autograd.grad(full_edges.pooled(s.requires_grad_(), *tensors[1:], ACTIVATIONS[0], found)[0].sum(), s)[0]
    assert max(int((of_s[a:b] != 0).sum(0).max()) for a, b in pairwise(found.start)) > 1
