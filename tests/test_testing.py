"""`reqnn.testing` accepts what is equivariant and fails on what is not."""

import pytest
import torch
from torch import nn

from reqnn import revise
from reqnn.errors import InputError
from reqnn.tensor import QuaternionTensor
from reqnn.testing import assert_equivariant, assert_invariant, equivariance_error

POINTS = torch.randn(2, 32, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 1))
        self.head = nn.Linear(8, 4)

    def forward(self, points):
        return self.head(self.layers(points.mT).amax(2))


def test_a_revised_network_is_invariant_and_its_original_is_not():
    torch.manual_seed(0)
    model = Tiny().double()
    net = revise(model, POINTS).double().eval()
    assert_invariant(net, POINTS, points_axis=1)
    with pytest.raises(AssertionError, match="not rotation-equivariant"):
        assert_invariant(model.eval(), POINTS)


def test_coordinates_rotate_on_their_axis():
    assert_equivariant(lambda x: x - x.mean(1, keepdim=True), POINTS, out_axis=-1)
    assert equivariance_error(lambda x: x - x.mean(1, keepdim=True), POINTS) > 0.1  # as if they were invariant
    assert_equivariant(lambda x: x.mT, POINTS, out_axis=1)


def test_quaternion_features():
    x = QuaternionTensor(torch.randn(3, 2, 4, 5, dtype=torch.float64))
    assert_equivariant(lambda x: 2 * x, x)
    with pytest.raises(AssertionError, match="not rotation-equivariant"):
        assert_equivariant(lambda x: x.same(x.components + 1), x)


def test_several_inputs_and_outputs():
    assert_equivariant(lambda a, b: (torch.linalg.cross(a, b), a + b), (POINTS, POINTS.flip(1)), out_axis=-1)


def test_the_order_of_points():
    with pytest.raises(AssertionError, match="order of the points"):
        assert_invariant(lambda x: x[:, 0].norm(dim=-1), POINTS, points_axis=1)


def test_nan_fails():
    with pytest.raises(AssertionError, match="not rotation-equivariant"):
        assert_invariant(lambda x: x.sum() * float("nan"), POINTS)


def test_low_precision_needs_a_tolerance():
    with pytest.raises(InputError, match="float64"):
        assert_invariant(lambda x: x.norm(dim=-1), POINTS.bfloat16())
