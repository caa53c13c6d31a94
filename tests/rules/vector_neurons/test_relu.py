"""The leaky ReLU along a learned direction: modules, functions and methods alike."""

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
from reqnn.rules.vector_neurons.relu import EPS, cut
from rules.vector_neurons.layers import on_quaternions

SLOPES = {
    "torch.relu": (torch.relu, 0.0),
    "F.relu": (F.relu, 0.0),
    "method": (lambda x: x.relu(), 0.0),
    "in place": (lambda x: x.clone().relu_(), 0.0),
    "nn.ReLU": (nn.ReLU(), 0.0),
    "nn.ReLU in place": (nn.ReLU(inplace=True), 0.0),
    "F.leaky_relu": (lambda x: F.leaky_relu(x, 0.3), 0.3),
    "nn.LeakyReLU": (nn.LeakyReLU(negative_slope=0.2), 0.2),
    "nn.LeakyReLU default": (nn.LeakyReLU(), 0.01),
    "nn.LeakyReLU in place": (nn.LeakyReLU(0.2, inplace=True), 0.2),
    "nn.PReLU": (nn.PReLU(init=0.4), 0.4),
    "nn.RReLU": (nn.RReLU(0.1, 0.3), 0.2),
    "clamp": (lambda x: x.clamp(min=0), 0.0),
    "nn.GELU": (nn.GELU(), 0.0),
    "nn.ReLU6": (nn.ReLU6(), 0.0),
}


def by_cases(v, k, slope):
    """The rule as the publication writes it, but for what keeps a short direction from being divided by."""
    inner = (v * k).sum(0)
    cut_off = v - inner / (k.square().sum(0) + EPS) * k
    return slope * v + (1 - slope) * torch.where(inner >= 0, v, cut_off)


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("direction", ["channel", "shared"])
def test_formula(name, direction):
    function, slope = SLOPES[name]
    x = draw(0, 2, 4, 5)
    net, run = on_quaternions(function, x, direction=direction)
    weight = net.relu_direction_0
    assert weight.shape == (4 if direction == "channel" else 1, 4)
    k = torch.einsum("oc,pbcn->pbon", weight, x.components)
    torch.testing.assert_close(
        run(x).components, by_cases(x.components, k.expand_as(x.components), slope), rtol=1e-6, atol=1e-6
    )


def test_one_slope_for_all():
    x = draw(0, 2, 4, 5)
    net, run = on_quaternions(lambda x: F.relu(x) + F.leaky_relu(x, 0.5), x, slope=0.2)
    ks = [torch.einsum("oc,pbcn->pbon", w, x.components) for w in (net.relu_direction_0, net.relu_direction_1)]
    expected = sum(by_cases(x.components, k, 0.2) for k in ks)
    torch.testing.assert_close(run(x).components, expected, rtol=1e-6, atol=1e-6)


def test_slopes_of_channels():
    x, module = draw(0, 2, 4, 5), nn.PReLU(4)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([0.1, 0.2, 0.3, 1.0]))
    net, run = on_quaternions(module, x)
    out = run(x)
    assert torch.equal(out.components[:, :, 3], x.components[:, :, 3])
    out.components.square().sum().backward()
    assert net.part.weight.grad.abs().max() > 0


@given(features(), rotations, st.sampled_from(["channel", "shared"]), st.sampled_from([0.0, 0.2]))
def test_equivariant(x, rotation, direction, slope):
    _, run = on_quaternions(lambda x: F.leaky_relu(x, slope), x, direction=direction)
    assert_equivariant(run, x, rotation)
    assert run(x).components.isfinite().all()


@pytest.mark.parametrize("original", [F.relu, lambda x: F.leaky_relu(x, 0.2), F.gelu])
def test_the_original_fails(original):
    assert_not_equivariant(original)


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_gradients(slope):
    _, run = on_quaternions(lambda x: F.leaky_relu(x, slope), draw(0, 2, 4, 3))
    assert_gradients(run, 2, 4, 3)
    assert_finite_gradients(run, 2, 4, 3)


def test_gradients_of_the_direction():
    v, weight = draw(0, 2, 4, 3).components, torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: cut(v, torch.einsum("oc,pbcn->pbon", w, v), 0.2), (weight,))


def test_a_direction_of_zero_takes_nothing_away():
    v = draw(0, 2, 4).components
    assert torch.equal(cut(v, torch.zeros_like(v), 0.0), v)


def test_channels_on_the_last_axis():
    """Behind a Linear the channels come last, and still do after a batch-norm on the transposed tensor."""
    linear, norm = nn.Linear(3, 6, bias=False).double(), nn.BatchNorm1d(6).double()

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = linear, norm

        def forward(self, x):
            x = F.relu(self.linear(x))
            return F.relu(self.norm(x.transpose(1, 2)).transpose(1, 2))

    for points in (5, 6):
        net, run = on_quaternions(Block(), draw(0, 2, points, 3))
        assert net.part.relu_direction_0.shape == net.part.relu_direction_1.shape == (6, 6)
        assert net.part.learned_constants == {"relu_axis_0": 2, "relu_axis_1": 2}
        order = torch.randperm(7)
        x = draw(1, 2, 7, 3)
        net.eval()
        torch.testing.assert_close(run(x)[:, order].components, run(x[:, order]).components)


def test_wrong_options_and_bounds():
    with pytest.raises(InputError, match="direction of the rule set is 'both'"):
        on_quaternions(F.relu, draw(0, 2, 4), direction="both")
    with pytest.raises(NoRuleError, match="clamp"):
        on_quaternions(lambda x: x.clamp(0, 6), draw(0, 2, 4))
    with pytest.raises(NoRuleError):
        on_quaternions(torch.tanh, draw(0, 2, 4))


def test_strict_is_the_publication():
    on_quaternions(nn.LeakyReLU(0.2), draw(0, 2, 4), strict=True)
    with pytest.raises(NoRuleError, match="strict=True refuses"):
        on_quaternions(F.gelu, draw(0, 2, 4), strict=True)
