"""Real spherical harmonics and their Wigner D-matrices: Y_l(R u) = D_l(R) Y_l(u).

Degree 1 are vectors; D_1(R) is R with its axes in another order. Higher degrees distinguish more: a table that is symmetric
under a rotation by 180° has no vector off its axis, but has harmonics of degree 2.
"""

from __future__ import annotations

import math
from functools import cache

import roma
import torch
from torch import Tensor

from reqnn import quaternion

DEGREES = 6
"""The highest degree."""


def harmonics(directions: Tensor, degrees: int = DEGREES) -> list[Tensor]:
    """Y_0 … Y_L of unit vectors (..., 3), each (..., 2l + 1), with Σ_m Y² = 2l + 1.

    Polynomials in x, y, z: no angles, hence no poles.
    """
    x, y, z = directions.unbind(-1)
    cosine, sine = [torch.ones_like(x)], [torch.zeros_like(x)]  # ρᵐ cos mφ and ρᵐ sin mφ
    for m in range(degrees):
        cosine.append(x * cosine[m] - y * sine[m])
        sine.append(x * sine[m] + y * cosine[m])
    legendre = _legendre(z, degrees)
    values = []
    for l in range(degrees + 1):  # noqa: E741 - the field's own letter
        parts = []
        for m in range(-l, l + 1):
            order = abs(m)
            scale = (2 * l + 1) * (2 if m else 1) * math.factorial(l - order) / math.factorial(l + order)
            parts.append(math.sqrt(scale) * legendre[l, order] * (cosine[order] if m >= 0 else sine[order]))
        values.append(torch.stack(parts, -1))
    return values


def _legendre(z: Tensor, degrees: int) -> dict[tuple[int, int], Tensor]:
    """Associated Legendre polynomials P_l^m(z) / ρᵐ, by their recurrence in l."""
    found = {}
    for m in range(degrees + 1):
        found[m, m] = torch.full_like(z, float(math.prod(range(1, 2 * m, 2))))
        for l in range(m + 1, degrees + 1):  # noqa: E741
            before = (l + m - 1) * found[l - 2, m] if l > m + 1 else 0.0
            found[l, m] = ((2 * l - 1) * z * found[l - 1, m] - before) / (l - m)
    return found


def wigner_d(rotations: Tensor, degrees: int = DEGREES) -> list[Tensor]:
    """D_1(R) … D_L(R) of rotations (G, 3, 3), each (G, 2l + 1, 2l + 1)."""
    directions, inverses = _probes(degrees)
    rotated = harmonics(torch.einsum("gij,uj->gui", rotations, directions), degrees)
    return [(inverse @ values).mT for inverse, values in zip(inverses, rotated[1:], strict=True)]


@cache
def generators(degrees: int = DEGREES) -> list[Tensor]:
    """J with D_l(exp ω) = 1 + Σ_k ω_k J_k + …, each (3, 2l + 1, 2l + 1): the derivative along small rotations."""

    def slightly_rotated(angles: Tensor) -> tuple[Tensor, ...]:
        return tuple(d[0] for d in wigner_d(roma.rotvec_to_rotmat(angles[None]), degrees))

    slopes = torch.autograd.functional.jacobian(slightly_rotated, torch.zeros(3, dtype=torch.float64))
    return [slope.movedim(-1, 0).contiguous() for slope in slopes]


@cache
def _probes(degrees: int) -> tuple[Tensor, list[Tensor]]:
    """Directions that determine all harmonics, and the matrices from values there to coefficients."""
    count = 4 * (2 * degrees + 1)
    height = (2 * torch.arange(count, dtype=torch.float64) + 1) / count - 1
    angle = torch.arange(count, dtype=torch.float64) * math.pi * (3 - math.sqrt(5))  # a Fibonacci spiral
    ring = (1 - height.square()).sqrt()
    directions = torch.stack([ring * angle.cos(), ring * angle.sin(), height], -1)
    return directions, [torch.linalg.pinv(values) for values in harmonics(directions, degrees)[1:]]


@cache
def rotation_grid(count: int = 4608) -> Tensor:
    """Unit quaternions (count, 4) spread evenly over all rotations: a super-Fibonacci spiral (Alexa, CVPR 2022).

    With 4608 the nearest one is 6° away on average, well within a peak of degree 6.
    """
    place = torch.arange(count, dtype=torch.float64) + 0.5
    share, phase = place / count, 2 * math.pi * place
    inner, outer = share.sqrt(), (1 - share).sqrt()
    first, second = phase / math.sqrt(2), phase / 1.533751168755204288118041  # ψ⁴ = ψ + 4
    return torch.stack([inner * first.sin(), inner * first.cos(), outer * second.sin(), outer * second.cos()], -1)


@cache
def grid_wigner_d(degrees: int = DEGREES) -> Tensor:
    """The D_l of the rotation grid, concatenated: (G, Σ_l (2l + 1)²)."""
    return torch.cat([d.flatten(1) for d in wigner_d(quaternion.to_matrix(rotation_grid()), degrees)], 1)
