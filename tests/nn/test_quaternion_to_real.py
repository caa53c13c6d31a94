"""Quaternion2Real: squared norms, invariant."""

import torch
from hypothesis import given
from torch import nn

from equivariance import assert_equivariant, assert_finite_gradients, assert_gradients, draw, features, rotations
from reqnn.nn import Quaternion2Real
from reqnn.nn.quaternion_to_real import quaternion_to_real_hook
from reqnn.tensor import QuaternionTensor


def test_formula():
    for dtype in (torch.float32, torch.float64):
        x = draw(0, 2, 4, dtype=dtype)
        out = Quaternion2Real()(x)
        assert not isinstance(out, QuaternionTensor)
        torch.testing.assert_close(out, x.components[0] ** 2 + x.components[1] ** 2 + x.components[2] ** 2)


@given(features(), rotations)
def test_invariant(x, rotation):
    assert_equivariant(Quaternion2Real(), x, rotation)


def test_gradients():
    assert_gradients(Quaternion2Real(), 2, 4)
    assert_finite_gradients(Quaternion2Real(), 2, 4)


def test_hook_stands_before_a_module():
    class Head(nn.Module):
        def forward(self, x, pair, *, extra):
            return x, pair, extra

    head, x = Head(), draw(0, 2, 4)
    head.register_forward_pre_hook(quaternion_to_real_hook, with_kwargs=True)
    first, (second, third), extra = head(x, [x, 5], extra=x)
    for out in (first, second, extra):
        assert torch.equal(out, x.squared_norm())
    assert third == 5
