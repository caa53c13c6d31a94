"""Table 1, "Convolution": bias-free convolutions and linear maps turn with their input; with a bias they do not."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_gradients,
    assert_not_equivariant,
    cloud,
    draw,
    equivariance_error,
    features,
    rotation_matrix,
    rotations,
)
from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor, from_real

CONVOLUTIONS = {
    "Linear": (lambda **k: nn.Linear(4, 6, bias=False, **k), (2, 3, 4)),
    "Linear on one row": (lambda **k: nn.Linear(4, 6, bias=False, **k), (4,)),
    "Conv1d": (lambda **k: nn.Conv1d(4, 6, 1, bias=False, **k), (2, 4, 5)),
    "Conv1d without batch": (lambda **k: nn.Conv1d(4, 6, 1, bias=False, **k), (4, 5)),
    "Conv1d, kernel 3": (lambda **k: nn.Conv1d(4, 6, 3, stride=2, padding=1, bias=False, **k), (2, 4, 5)),
    "Conv1d, same": (lambda **k: nn.Conv1d(4, 6, 3, padding="same", dilation=2, bias=False, **k), (2, 4, 5)),
    "Conv1d, circular": (
        lambda **k: nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular", bias=False, **k),
        (2, 4, 5),
    ),
    "Conv1d, groups": (lambda **k: nn.Conv1d(4, 6, 1, groups=2, bias=False, **k), (2, 4, 5)),
    "Conv1d, depth-wise": (lambda **k: nn.Conv1d(4, 4, 2, groups=4, bias=False, **k), (2, 4, 5)),
    "Conv2d": (lambda **k: nn.Conv2d(4, 6, 1, bias=False, **k), (2, 4, 5, 3)),
    "Conv2d, kernel (1, 3)": (lambda **k: nn.Conv2d(4, 6, (1, 3), stride=(2, 1), bias=False, **k), (2, 4, 5, 3)),
    "Conv2d without batch": (lambda **k: nn.Conv2d(4, 6, 2, bias=False, **k), (4, 5, 3)),
    "Conv3d": (lambda **k: nn.Conv3d(4, 6, 2, padding=1, bias=False, **k), (2, 4, 3, 2, 3)),
    "ConvTranspose1d": (lambda **k: nn.ConvTranspose1d(4, 6, 3, stride=2, bias=False, **k), (2, 4, 5)),
    "ConvTranspose2d": (lambda **k: nn.ConvTranspose2d(4, 6, 2, groups=2, bias=False, **k), (2, 4, 3, 2)),
    "ConvTranspose3d": (lambda **k: nn.ConvTranspose3d(4, 6, 2, bias=False, **k), (2, 4, 2, 2, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shared_real_weights(name, dtype):
    """w ⊗ (a·i + b·j + c·k) = (w ⊗ a)·i + (w ⊗ b)·j + (w ⊗ c)·k, exactly the layer on each part."""
    make, shape = CONVOLUTIONS[name]
    layer, x = make(dtype=dtype), draw(0, *shape, dtype=dtype)
    out = layer(x)
    assert out.components.dtype == dtype
    torch.testing.assert_close(out.components, torch.stack([layer(part) for part in x.components]))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert_equivariant(layer, x, rotation_matrix(1), tolerance=tolerance)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients(name):
    make, shape = CONVOLUTIONS[name]
    layer = make(dtype=torch.float64)
    assert_gradients(layer, *shape)
    layer(draw(0, *shape)).squared_norm().sum().backward()
    assert layer.weight.grad.isfinite().all()


@given(features(), rotations, st.integers(1, 3), st.integers(1, 3))
def test_equivariant(x, rotation, out, kernel):
    weight = draw(0, out, x.shape[1], kernel).components[0]
    assert_equivariant(lambda x: F.conv1d(x, weight, padding=kernel // 2), x, rotation)
    assert_equivariant(lambda x: F.linear(x, weight[:, :1, 0].expand(-1, x.shape[-1])), x, rotation)


def test_functional_keywords():
    x, weight = draw(0, 2, 4, 5), draw(1, 6, 4, 1).components[0]
    expected = F.conv1d(x, weight).components
    for out in (
        F.conv1d(x, weight=weight, bias=None),
        F.conv1d(input=x, weight=weight),
        torch.conv1d(x, weight, None, 1),
    ):
        assert torch.equal(out.components, expected)


@pytest.mark.parametrize("layer", [nn.Conv1d(6, 6, 1, bias=False).double(), nn.Conv1d(6, 6, 1).double()])
def test_the_original_fails(layer):
    """It mixes the coordinates of 3·C real channels, and adds a fixed direction."""
    assert_not_equivariant(layer)


def test_a_bias_alone_breaks_it():
    layer = nn.Conv1d(2, 4, 1).double()

    def biased(x):
        out = F.conv1d(x, layer.weight)
        return QuaternionTensor(out.components + layer.bias[:, None])

    assert equivariance_error(biased, draw(0, 2, 2, 5), rotation_matrix(1)) > 1e-3


@pytest.mark.parametrize("layer", [nn.Linear(5, 2), nn.Conv1d(4, 2, 1), nn.ConvTranspose1d(4, 2, 1)])
def test_a_bias_is_refused(layer):
    with pytest.raises(NoRuleError, match="bias"):
        layer.double()(draw(0, 2, 4, 5))


def test_coordinates_are_one_quaternion_a_vector():
    """A first layer for 6 real channels has 2 quaternion inputs after the revision; until then it is refused."""
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    weight = torch.randn(4, 2, 1, dtype=torch.float64)
    out = F.conv1d(from_real(x, 1), weight)
    assert out.shape == (2, 4, 5)
    torch.testing.assert_close(out.components, torch.einsum("oc,bcdn->dbon", weight[..., 0], x.view(2, 2, 3, 5)))
    with pytest.raises(NoRuleError, match="still as wide"):
        F.conv1d(from_real(x, 1), torch.ones(4, 6, 1).double())
    with pytest.raises(NoRuleError, match="expected 6 channels"):
        F.conv1d(from_real(x, 1), torch.ones(4, 5, 1).double())


def test_coordinates_on_another_axis():
    with pytest.raises(NoRuleError, match="lie on axis 2"):
        F.conv1d(cloud(0, 2, 4, 3), torch.ones(4, 4, 1).double())
    with pytest.raises(NoRuleError, match="lie on axis 1"):
        F.linear(cloud(0, 2, 3, 4, axis=1), torch.ones(4, 4).double())


def test_features_as_weights():
    with pytest.raises(NoRuleError, match="weight"):
        F.linear(torch.ones(2, 4).double(), draw(0, 6, 4))
    with pytest.raises(NoRuleError, match="kernel"):
        F.conv1d(torch.ones(2, 4, 5).double(), draw(0, 6, 4, 1))


@given(rotations, st.integers(1, 3))
def test_scalars_gate_vectors(rotation, scalars):
    """Declared scalars open and close what the vectors give: still equivariant."""
    generator = torch.Generator().manual_seed(scalars)
    x = torch.randn(2, 6 + scalars, 5, generator=generator, dtype=torch.float64)
    weight = torch.randn(4, 2 + scalars, 1, generator=generator, dtype=torch.float64)
    turned = torch.cat([torch.einsum("ij,bvjn->bvin", rotation, x[:, :6].view(2, 2, 3, 5)).flatten(1, 2), x[:, 6:]], 1)
    here = F.conv1d(from_real(x, 1, scalars=scalars), weight)
    there = F.conv1d(from_real(turned, 1, scalars=scalars), weight)
    torch.testing.assert_close(there.components, torch.einsum("ij,jbcn->ibcn", rotation, here.components))
    changed = x.clone()
    changed[:, 6:] += 1
    assert not torch.allclose(F.conv1d(from_real(changed, 1, scalars=scalars), weight).components, here.components)
