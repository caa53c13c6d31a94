"""Extension: layer, group and instance norm divide by the root mean squared norm."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_finite_gradients,
    assert_gradients,
    assert_not_equivariant,
    cloud,
    draw,
    features,
    rotation_matrix,
    rotations,
    strict,
)
from reqnn.errors import NoRuleError

GAIN = torch.linspace(0.5, 2, 6).double()

NORMS = {  # on (2, 6, 4): what it is, and the axes and grouping it averages over
    "layer_norm": (lambda x: F.layer_norm(x.mT, (6,)).mT, (1,)),
    "nn.LayerNorm": (lambda x: nn.LayerNorm(4, elementwise_affine=False)(x), (2,)),
    "nn.LayerNorm of two": (lambda x: nn.LayerNorm((6, 4), elementwise_affine=False)(x), (1, 2)),
    "rms_norm": (lambda x: F.rms_norm(x, (4,), eps=1e-5), (2,)),
    "torch.rms_norm": (lambda x: torch.rms_norm(x, (4,), None, 1e-5), (2,)),
    "nn.RMSNorm": (lambda x: nn.RMSNorm(4, eps=1e-5, elementwise_affine=False)(x), (2,)),
    "nn.GroupNorm(1)": (nn.GroupNorm(1, 6, affine=False), (1, 2)),
    "nn.InstanceNorm1d": (nn.InstanceNorm1d(6), (2,)),
    "instance_norm": (F.instance_norm, (2,)),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_formula(name, dtype):
    norm, dims = NORMS[name]
    x = draw(0, 2, 6, 4, dtype=dtype) * 3
    out = norm(x)
    power = x.squared_norm().mean(dims, keepdim=True)
    assert out.components.dtype == dtype
    torch.testing.assert_close(out.components, x.components / (power + 1e-5).sqrt())
    assert_equivariant(norm, x, rotation_matrix(1), tolerance=1e-10 if dtype == torch.float64 else 1e-5)


def test_groups():
    x = draw(0, 2, 6, 4, 3)
    power = x.squared_norm().view(2, 3, -1).mean(-1).repeat_interleave(2, 1)[..., None, None]
    torch.testing.assert_close(F.group_norm(x, 3).components, x.components / (power + 1e-5).sqrt())


def test_gains_stay():
    x = draw(0, 2, 5, 6)
    plain = F.layer_norm(x, (6,)).components
    torch.testing.assert_close(F.layer_norm(x, (6,), GAIN).components, plain * GAIN)
    torch.testing.assert_close(F.layer_norm(x, [5, 6], GAIN.expand(5, 6)).components, F.layer_norm(x, [5, 6]).components * GAIN)
    y = draw(0, 2, 6, 5)
    torch.testing.assert_close(F.group_norm(y, 2, GAIN).components, F.group_norm(y, 2).components * GAIN[:, None])
    torch.testing.assert_close(F.instance_norm(y, weight=GAIN).components, F.instance_norm(y).components * GAIN[:, None])
    torch.testing.assert_close(nn.RMSNorm(6, eps=1e-5).double()(x).components, plain)


@pytest.mark.parametrize("module", [nn.LayerNorm(4), nn.GroupNorm(2, 6), nn.InstanceNorm1d(6, affine=True)])
def test_shifts_go(module):
    with pytest.raises(NoRuleError, match="bias"):
        module.double()(draw(0, 2, 6, 4))


@given(features(), rotations)
def test_equivariant(x, rotation):
    channels, points = x.shape[1:]
    gain = torch.arange(1.0, points + 1).double()

    def norms(x):
        return (F.layer_norm(x, (points,), gain), F.group_norm(x, channels), F.group_norm(x, 1), F.instance_norm(x))

    assert_equivariant(norms, x, rotation)
    assert all(out.components.isfinite().all() for out in norms(x))


@pytest.mark.parametrize("original", [lambda x: F.layer_norm(x.mT, (6,)).mT, lambda x: F.group_norm(x, 2), F.instance_norm])
def test_the_original_fails(original):
    assert_not_equivariant(original)


@pytest.mark.parametrize("name", NORMS)
def test_gradients(name):
    assert_gradients(NORMS[name][0], 2, 6, 4)
    assert_finite_gradients(NORMS[name][0], 2, 6, 4)


def test_coordinates_are_normalised_as_vectors():
    x = cloud(0, 2, 5, 6)
    assert F.layer_norm(x, (6,)).shape == (2, 5, 6)
    assert F.layer_norm(x, (6,)).vectors == "vv"
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, (4,))


def test_strict_refuses():
    for norm in (lambda x: F.layer_norm(x, (4,)), lambda x: F.group_norm(x, 1), F.instance_norm):
        with pytest.raises(NoRuleError, match="strict=True refuses"):
            norm(strict(draw(0, 2, 6, 4)))
