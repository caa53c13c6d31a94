"""Table 1, "ReLU": ‖f‖ / max{‖f‖, c} · f, its relatives, and the original that cuts single coordinates."""

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
    strict,
    with_options,
)
from reqnn.errors import NoRuleError
from reqnn.rules.paper.relu import quaternion_relu

PAPER = {
    "torch.relu": torch.relu,
    "F.relu": F.relu,
    "method": lambda x: x.relu(),
    "in place": lambda x: x.clone().relu_(),
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU in place": lambda x: nn.ReLU(inplace=True)(x.clone()),
    "F.leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "nn.LeakyReLU": nn.LeakyReLU(negative_slope=0.2),
    "nn.LeakyReLU in place": lambda x: nn.LeakyReLU(0.2, inplace=True)(x.clone()),
    "nn.PReLU": nn.PReLU(),
    "nn.RReLU": nn.RReLU(),
    "clamp": lambda x: x.clamp(min=0),
    "clamp_min": lambda x: torch.clamp_min(x, 0),
}
RELATIVES = {
    "nn.ELU": nn.ELU(),
    "nn.ELU in place": lambda x: nn.ELU(inplace=True)(x.clone()),
    "nn.GELU": nn.GELU(),
    "nn.GELU tanh": nn.GELU(approximate="tanh"),
    "nn.SiLU": nn.SiLU(),
    "nn.SELU": nn.SELU(),
    "nn.CELU": nn.CELU(),
    "nn.Mish": nn.Mish(),
    "nn.Hardswish": nn.Hardswish(),
    "nn.Softplus": nn.Softplus(),
    "nn.ReLU6": nn.ReLU6(),
    "F.gelu": F.gelu,
}


@pytest.mark.parametrize("name", PAPER | RELATIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_formula(name, dtype):
    x = draw(0, 2, 4, 5, dtype=dtype)
    norm = x.components.square().sum(0).sqrt()
    out = (PAPER | RELATIVES)[name](x)
    assert out.components.dtype == dtype
    torch.testing.assert_close(out.components, norm / norm.clamp(min=1) * x.components)


def test_a_constant_of_ones_own():
    x = with_options(draw(0, 2, 4), c=2.5)
    norm = x.components.square().sum(0).sqrt()
    torch.testing.assert_close(F.relu(x).components, norm / norm.clamp(min=2.5) * x.components)
    torch.testing.assert_close(quaternion_relu(draw(0, 2, 4), 2.5).components, F.relu(x).components)


def test_the_mean_norm():
    """c = 1/d Σ_v ‖f_v‖ over the d features of a point."""
    x = with_options(draw(0, 2, 4, 5), c="mean")
    norm = x.components.square().sum(0).sqrt()
    torch.testing.assert_close(F.relu(x).components, norm / norm.maximum(norm.mean(1, keepdim=True)) * x.components)
    row = with_options(draw(0, 4), c="mean")
    assert F.relu(row).shape == (4,)


@given(features(), rotations, st.sampled_from([1.0, 0.3, 0.0, "mean"]))
def test_equivariant(x, rotation, c):
    x = with_options(x, c=c)
    assert_equivariant(lambda x: (F.relu(x), F.leaky_relu(x, 0.2), F.gelu(x)), x, rotation)
    assert F.relu(x).components.isfinite().all()


@pytest.mark.parametrize(
    "original", [F.relu, lambda x: F.leaky_relu(x, 0.2), F.gelu, F.silu, F.elu, F.softplus, lambda x: x.clamp(min=0)]
)
def test_the_original_fails(original):
    assert_not_equivariant(original)


@pytest.mark.parametrize("c", [1.0, "mean"])
def test_gradients(c):
    assert_gradients(lambda x: quaternion_relu(x, c), 2, 4, 3)
    assert_finite_gradients(lambda x: quaternion_relu(x, c), 2, 4, 3)


def test_large_quaternions_pass_and_small_ones_shrink():
    x = draw(0, 200)
    before, after = x.abs(), F.relu(x).abs()
    torch.testing.assert_close(after[before >= 1], before[before >= 1])
    torch.testing.assert_close(after[before < 1], before[before < 1] ** 2)


@pytest.mark.parametrize("operation", [lambda x: x.clamp(0, 6), lambda x: x.clamp(min=0.1), lambda x: x.clamp(max=0)])
def test_other_bounds_are_refused(operation):
    with pytest.raises(NoRuleError, match="clamp"):
        operation(draw(0, 2, 4))


@pytest.mark.parametrize("module", [nn.Sigmoid(), nn.Tanh(), nn.Hardtanh(), nn.Softsign(), nn.LogSigmoid(), nn.GLU(dim=1)])
def test_gates_are_refused(module):
    with pytest.raises(NoRuleError):
        module(draw(0, 2, 4))


@pytest.mark.parametrize("name", RELATIVES)
def test_strict_refuses_smooth_relatives(name):
    with pytest.raises(NoRuleError, match="strict=True refuses"):
        RELATIVES[name](strict(draw(0, 2, 4)))
