"""Spherical harmonics: orthonormal, and rotated by matrices of their own degree."""

import pytest
import torch

from equivariance import generator, rotation_matrix
from reqnn import quaternion
from reqnn.alignment.harmonics import generators, harmonics, rotation_grid, wigner_d
from reqnn.alignment.verdict import degrees_between


def directions(count, seed=0):
    u = torch.randn(count, 3, generator=generator(seed), dtype=torch.float64)
    return u / u.norm(dim=-1, keepdim=True)


def test_values_of_low_degrees():
    u = directions(5)
    x, y, z = u.unbind(-1)
    constant, vectors, quadrics = harmonics(u, 2)
    torch.testing.assert_close(constant, torch.ones_like(constant))
    torch.testing.assert_close(vectors, 3**0.5 * torch.stack([y, z, x], -1))
    torch.testing.assert_close(quadrics[:, 2], 5**0.5 / 2 * (3 * z**2 - 1))


@pytest.mark.parametrize("degree", range(7))
def test_orthonormal(degree):
    values = harmonics(directions(9))[degree]
    torch.testing.assert_close(values.square().sum(-1), torch.full((9,), 2.0 * degree + 1, dtype=torch.float64))


def test_they_turn_within_their_degree():
    rotations = torch.stack([rotation_matrix(1), rotation_matrix(2)])
    u = directions(7)
    before, after = harmonics(u), harmonics(torch.einsum("gij,uj->gui", rotations, u))
    for degree, d in enumerate(wigner_d(rotations), start=1):
        expected = torch.einsum("gmn,un->gum", d, before[degree])
        torch.testing.assert_close(after[degree], expected, rtol=0, atol=1e-11)
        assert (after[degree] - before[degree]).abs().max() > 0.1
        one = torch.eye(2 * degree + 1, dtype=torch.float64).expand_as(d)
        torch.testing.assert_close(d @ d.mT, one, rtol=0, atol=1e-11)


def test_generators_are_the_derivative():
    for axis in torch.eye(3, dtype=torch.float64):
        small = 1e-6 * axis
        rotation = quaternion.to_matrix(quaternion.exp(quaternion.pure(small / 2)))[None]
        for d, slope in zip(wigner_d(rotation), generators(), strict=True):
            one = torch.eye(d.shape[-1], dtype=torch.float64)
            torch.testing.assert_close((d[0] - one) / 1e-6, torch.einsum("k,kmn->mn", axis, slope), rtol=0, atol=1e-4)


def test_the_grid_is_close_to_every_rotation():
    grid = quaternion.to_matrix(rotation_grid())
    wanted = quaternion.random_matrix(50, generator(3), torch.float64)
    nearest = torch.stack([degrees_between(grid, one).min() for one in wanted])
    assert nearest.mean() < 10
    assert nearest.max() < 20
