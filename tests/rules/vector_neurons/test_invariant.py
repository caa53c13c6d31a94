"""The invariant layer: features read in a learned frame, in place of their squared norms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equivariance import assert_equivariant, assert_finite_gradients, assert_gradients, draw, features, rotations
from reqnn.errors import InputError
from reqnn.nn.quaternion_to_real import to_real
from rules.vector_neurons.layers import on_quaternions


@pytest.mark.parametrize("readings", [3, 1])
@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 5), (2, 4, 3, 5)])
def test_shapes(readings, shape):
    x = draw(0, *shape)
    net, run = on_quaternions(to_real, x, batch=2, readings=readings, frame_width=8)
    out = run(x)
    assert out.shape == (2, 4 * readings, *shape[2:])
    assert hasattr(net, "frame_mean_0") == (len(shape) > 2)
    assert net.frame_axes_0.shape == (3, 8)


def test_readings_are_inner_products():
    """With 3 readings, V is known up to a rotation: V·Tᵀ·(T·Tᵀ)⁻¹·T·Vᵀ = V·Vᵀ wherever T has full rank."""
    x = draw(0, 1, 6)
    _, run = on_quaternions(to_real, x, batch=1)
    out = run(x).unflatten(1, (3, 6))[0]  # (3, C): ⟨v_c, t_a⟩
    v = x.components[:, 0]  # (3, C)
    assert torch.linalg.matrix_rank(torch.cat([out, v])) == 3


def test_places_share_the_mean_but_not_the_frame():
    x = draw(0, 2, 4, 5)
    _, run = on_quaternions(to_real, x, batch=2)
    out = run(x)
    order = torch.randperm(5)
    torch.testing.assert_close(run(x[:, :, order]), out[:, :, order])
    torch.testing.assert_close(run(x[:1]), out[:1])  # each cloud its own mean
    assert (run(x[:, :, :3]) - out[:, :, :3]).abs().max() > 1e-3


@given(features(), rotations, st.sampled_from([3, 1]))
def test_invariant(x, rotation, readings):
    _, run = on_quaternions(to_real, x, batch=x.shape[0], readings=readings)
    assert_equivariant(run, x, rotation)
    assert run(x).isfinite().all()


def test_it_tells_what_norms_do_not():
    """Two features of equal lengths at another angle to each other."""
    one = draw(0, 1, 2)
    _, run = on_quaternions(to_real, one, batch=1)
    other = one.same(torch.stack([one.components[..., 0], -one.components[..., 1]], -1))
    torch.testing.assert_close(one.squared_norm(), other.squared_norm())
    assert (run(one) - run(other)).abs().max() > 1e-3


@pytest.mark.parametrize("readings", [3, 1])
def test_gradients(readings):
    _, run = on_quaternions(to_real, draw(0, 2, 4, 3), batch=2, readings=readings, frame_width=5)
    assert_gradients(run, 2, 4, 3)
    assert_finite_gradients(run, 2, 4, 3)


def test_wrong_options():
    with pytest.raises(InputError, match="readings of the rule set is 2"):
        on_quaternions(to_real, draw(0, 2, 4), readings=2)
    with pytest.raises(InputError, match="frame_width"):
        on_quaternions(to_real, draw(0, 2, 4), frame_width=0)
