"""The rotations that bring the features of one cloud closest to those of another.

    Σ_lk a_lk ‖F_lk(target) − D_l(R) F_lk(source)‖² = const − 2 Σ_l ⟨C_l, D_l(R)⟩,    C_l = Σ_k a_lk F_lk(target) F_lk(source)ᵀ

with a the reciprocal of the noise. For degree 1 alone that is Horn's problem, with one closed-form maximum. With higher degrees
there may be several, and which ones is what symmetry of an object means: all of them are looked up on a grid of rotations and
climbed by Newton's method.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn import quaternion
from reqnn.alignment.harmonics import generators, grid_turns, rotation_grid, turns
from reqnn.alignment.moments import Moments

_APART = 25.0  # degrees between candidates
_STEPS, _LONGEST_STEP = 20, 0.2  # of Newton's method; radians
_FLOOR = 1e-9  # noise, relative to the largest: channels without any decide no more than that


def candidates(source: Moments, target: Moments, count: int = 12) -> Tensor:
    """The best rotations (≤ count, 3, 3), source to target, no two within 25° of each other where they are looked up."""
    correlations = cross_correlations(source, target)
    score = grid_turns(len(correlations)) @ torch.cat([c.flatten() for c in correlations])  # (G,)
    grid = rotation_grid()
    near = torch.cos(torch.deg2rad(torch.tensor(_APART / 2, dtype=torch.float64)))
    best = []
    for _ in range(count):
        first = score.argmax()
        if score[first] == -torch.inf:
            break
        best.append(grid[first])
        score = score.masked_fill((grid @ grid[first]).abs() > near, -torch.inf)
    return climb(quaternion.to_matrix(torch.stack(best)), correlations)


def cross_correlations(source: Moments, target: Moments) -> list[Tensor]:
    """C_l for each degree, (2l + 1, 2l + 1), channels weighted by their reliability."""
    noise = [a + b for a, b in zip(source.noise, target.noise, strict=True)]
    floor = _FLOOR * max(float(n.max()) for n in noise) + torch.finfo(torch.float64).tiny
    pairs = zip(source.values, target.values, noise, strict=True)
    return [torch.einsum("k,km,kn->mn", 1 / (n + floor), b, a) for a, b, n in pairs]


def climb(rotations: Tensor, correlations: list[Tensor]) -> Tensor:
    """Rotations (R, 3, 3) moved uphill to the nearest maximum of Σ_l ⟨C_l, D_l(R)⟩."""
    degrees = len(correlations)
    for _ in range(_STEPS):
        slope = rotations.new_zeros(len(rotations), 3)
        curve = rotations.new_zeros(len(rotations), 3, 3)
        for c, d, j in zip(correlations, turns(rotations, degrees), generators(degrees), strict=True):
            m = c @ d.mT  # ⟨C, exp(ω·J) D⟩ = ⟨C Dᵀ, 1 + ω·J + (ω·J)²/2 + …⟩
            slope += torch.einsum("rmn,kmn->rk", m, j)
            curve += torch.einsum("rmn,kmp,jpn->rkj", m, j, j)
        steepness, axes = torch.linalg.eigh(-(curve + curve.mT) / 2)
        steepness = steepness.abs()  # uphill also where it is not yet concave
        steepness = steepness.clamp(min=1e-6 * float(steepness.max()) + torch.finfo(torch.float64).tiny)
        step = torch.einsum("rij,rj,rkj,rk->ri", axes, 1 / steepness, axes, slope)
        length = step.norm(dim=-1, keepdim=True)
        step = step * (_LONGEST_STEP / length.clamp(min=_LONGEST_STEP))
        rotations = _small_rotation(step) @ rotations
        if float(length.max()) < 1e-12:
            break
    return rotations


def _small_rotation(angles: Tensor) -> Tensor:
    """exp of rotation vectors (R, 3) as matrices (R, 3, 3)."""
    return quaternion.to_matrix(quaternion.exp(quaternion.pure(angles / 2)))
