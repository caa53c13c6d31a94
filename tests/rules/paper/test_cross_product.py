"""Extension: a × b turns with a and b, and leaves the mirror plane that both lie in."""

import pytest
import torch
from hypothesis import given

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
    turned,
)
from reqnn.errors import InputError, NoRuleError
from reqnn.rules.paper.cross_product import cross_product


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_formula(dtype):
    a, b = draw(0, 2, 5, dtype=dtype), draw(1, 2, 5, dtype=dtype)
    out = cross_product(a, b)
    assert out.components.dtype == dtype
    torch.testing.assert_close(out.components, torch.linalg.cross(a.components, b.components, dim=0))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert_equivariant(lambda both: cross_product(*both), [a, b], rotation_matrix(1, dtype), tolerance=tolerance)


def test_it_is_half_the_commutator_of_quaternions():
    from reqnn import quaternion

    a, b = (draw(seed, 4).general().components.T for seed in (0, 1))
    commutator = (quaternion.multiply(a, b) - quaternion.multiply(b, a)) / 2
    torch.testing.assert_close(cross_product(draw(0, 4), draw(1, 4)).components, commutator.T[1:])


@given(features(rank=2), rotations)
def test_it_turns_with_its_operands(x, rotation):
    assert_equivariant(lambda x: cross_product(x, x.flip(0) + x), x, rotation)


def test_shapes_broadcast():
    a, b = draw(0, 2, 1, 4), draw(1, 3, 4)
    assert cross_product(a, b).shape == (2, 3, 4)


def test_coordinates_stay_coordinates():
    a, b = cloud(0, 2, 7, 3), cloud(1, 2, 7, 3)
    torch.testing.assert_close(cross_product(a, b).as_real(), torch.linalg.cross(a.as_real(), b.as_real()))


def test_it_leaves_the_plane_and_does_not_follow_a_reflection():
    a, b = draw(0, 6), draw(1, 6)
    for x in (a, b):
        x.components[0] = 0  # in the plane x = 0
    assert cross_product(a, b).components[1:].abs().max() == 0
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0])).double()
    c, d = draw(2, 6), draw(3, 6)
    followed, made = turned(cross_product(c, d), mirror), cross_product(turned(c, mirror), turned(d, mirror))
    torch.testing.assert_close(made.components, -followed.components)


def test_a_product_of_single_coordinates_is_not_equivariant():
    assert_not_equivariant(lambda x: x * x.flip(1))


def test_gradients():
    assert_gradients(lambda x: cross_product(x, x.flip(1)), 2, 4)
    assert_finite_gradients(lambda x: cross_product(x, x.flip(1)), 2, 4)


def test_real_vectors():
    a, b = torch.randn(2, 5, 3), torch.randn(2, 5, 3)
    assert cross_product(a, b).equal(torch.linalg.cross(a, b))
    with pytest.raises(InputError, match="axis of size 3"):
        cross_product(a[..., :2], b[..., :2])


def test_what_has_no_direction_is_refused():
    with pytest.raises(NoRuleError, match="two tensors of vectors"):
        cross_product(draw(0, 4), torch.randn(4).double())
    with pytest.raises(NoRuleError, match="coordinates with features"):
        cross_product(cloud(0, 2, 7, 3), draw(0, 2, 7, 1))


def test_it_goes_beyond_the_paper():
    with pytest.raises(NoRuleError):
        cross_product(strict(draw(0, 4)), strict(draw(1, 4)))
