"""QuaternionReLU, the module."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import assert_equivariant, assert_gradients, draw, features, rotations, with_options
from reqnn.nn import QuaternionReLU
from reqnn.nn.exchange import exchange_class


@pytest.mark.parametrize("c", [1.0, 0.25, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_formula(c, dtype):
    x = draw(0, 2, 4, 5, dtype=dtype)
    norm = x.components.square().sum(0).sqrt()
    torch.testing.assert_close(QuaternionReLU(c)(x).components, norm / norm.clamp(min=c) * x.components)


def test_the_rule_set_says_c():
    x = with_options(draw(0, 2, 4), c=2.0)
    assert torch.equal(QuaternionReLU()(x).components, QuaternionReLU(2.0)(draw(0, 2, 4)).components)
    assert torch.equal(QuaternionReLU()(draw(0, 2, 4)).components, F.relu(draw(0, 2, 4)).components)


@given(features(), rotations)
def test_equivariant(x, rotation):
    for c in (None, 0.5, "mean"):
        assert_equivariant(QuaternionReLU(c), x, rotation)


def test_gradients():
    assert_gradients(QuaternionReLU("mean"), 2, 3, 2)


def test_repr():
    assert repr(QuaternionReLU()) == "QuaternionReLU()"
    assert repr(QuaternionReLU("mean")) == "QuaternionReLU(c=mean)"


def test_a_prelu_becomes_one_under_its_name():
    model = nn.Sequential(nn.PReLU(4))
    module = model[0]
    exchange_class(module, QuaternionReLU())
    assert model[0] is module
    assert isinstance(module, QuaternionReLU)
    assert list(model.parameters()) == []
    assert torch.equal(model(draw(0, 2, 4)).components, F.relu(draw(0, 2, 4)).components)
