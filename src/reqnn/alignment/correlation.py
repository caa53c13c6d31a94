"""The rotations that bring the features of one cloud closest to those of another.

    Σ_lk a_lk ‖F_lk(target) − D_l(R) F_lk(source)‖² = const − 2 Σ_l ⟨C_l, D_l(R)⟩,    C_l = Σ_k a_lk F_lk(target) F_lk(source)ᵀ

with a the reciprocal of the noise. For degree 1 alone this is Horn's problem, with one maximum in closed form. Higher degrees
may have several maxima, one per symmetry of the object: they are found on a grid of rotations and refined by Newton's method.
"""

from __future__ import annotations

import roma
import torch
from torch import Tensor

from reqnn import quaternion
from reqnn.alignment.harmonics import generators, grid_wigner_d, rotation_grid, wigner_d
from reqnn.alignment.moments import Moments

_APART = 25.0  # degrees between candidates
_STEPS, _LONGEST_STEP = 20, 0.2  # of Newton's method; radians
_FLOOR = 1e-9  # noise, relative to the largest: bounds the weight of channels without noise


def candidates(source: Moments, target: Moments, count: int = 12) -> Tensor:
    """The best rotations (≤ count, 3, 3), source to target; their grid points are at least 25° apart."""
    noise = [a + b for a, b in zip(source.noise, target.noise, strict=True)]
    largest = max(float(n.max()) for n in noise)
    pairs = zip(source.values, target.values, noise, strict=True)
    correlations = [torch.einsum("k,km,kn->mn", reliability(n, largest), b, a) for a, b, n in pairs]  # C_l
    score = grid_wigner_d(len(correlations)) @ torch.cat([c.flatten() for c in correlations])  # (G,)
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


def climb(rotations: Tensor, correlations: list[Tensor]) -> Tensor:
    """Rotations (R, 3, 3) moved uphill to the nearest maximum of Σ_l ⟨C_l, D_l(R)⟩."""
    degrees = len(correlations)
    for _ in range(_STEPS):
        slope = rotations.new_zeros(len(rotations), 3)
        curve = rotations.new_zeros(len(rotations), 3, 3)
        for c, d, j in zip(correlations, wigner_d(rotations, degrees), generators(degrees), strict=True):
            m = c @ d.mT  # ⟨C, exp(ω·J) D⟩ = ⟨C Dᵀ, 1 + ω·J + (ω·J)²/2 + …⟩
            slope += torch.einsum("rmn,kmn->rk", m, j)
            curve += torch.einsum("rmn,kmp,jpn->rkj", m, j, j)
        steepness, axes = torch.linalg.eigh(-(curve + curve.mT) / 2)
        steepness = steepness.abs()  # uphill even if not yet concave
        steepness = steepness.clamp(min=1e-6 * float(steepness.max()) + torch.finfo(torch.float64).tiny)
        step = torch.einsum("rij,rj,rkj,rk->ri", axes, 1 / steepness, axes, slope)
        length = step.norm(dim=-1, keepdim=True)
        step = step * (_LONGEST_STEP / length.clamp(min=_LONGEST_STEP))
        rotations = roma.rotvec_to_rotmat(step) @ rotations
        if float(length.max()) < 1e-12:
            break
    return rotations


def rotation_between(source: Tensor, target: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """argmin_R Σ_c w_c ‖target_c − R source_c‖² over rotations, det R = +1 (Horn 1987; Kabsch; Umeyama 1991).

    Shapes: source, target (..., C, 3), weights (..., C) -> rotation (..., 3, 3), stiffness (..., 3).

    Returns:
        The rotation, and how much the sum grows with rotations about its three principal axes, largest first:
        s₁+s₂, s₁+d·s₃, s₂+d·s₃ with the singular values s of the cross-covariance and d = ±1. If the last is 0, the
        vectors lie on one line, and the angle about it is undetermined.
    """
    weighted = target if weights is None else target * weights[..., None]
    rotation, signed = roma.special_procrustes(weighted.mT @ source, return_singular_values=True)
    first, second, third = signed.unbind(-1)  # the third is d·s₃
    return rotation, torch.stack([first + second, first + third, second + third], -1)


def reliability(noise: Tensor, largest: float | None = None) -> Tensor:
    """Weights (C,) of channels from the variance (C,) of each; finite for channels without noise, such as an empty shell."""
    return 1 / (noise + _FLOOR * (float(noise.max()) if largest is None else largest) + torch.finfo(noise.dtype).tiny)
