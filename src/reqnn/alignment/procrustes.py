"""Horn's problem: the rotation between two sets of corresponding vectors, in closed form."""

from __future__ import annotations

import roma
import torch
from torch import Tensor


def rotation_between(source: Tensor, target: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """argmin_R Σ_c w_c ‖target_c − R source_c‖² over rotations, det R = +1 (Horn 1987; Kabsch; Umeyama 1991).

    The vectors are features, so channel c of one cloud belongs to channel c of the other: no points have to be matched.

    Shapes: source, target (..., C, 3), weights (..., C) -> rotation (..., 3, 3), stiffness (..., 3).

    Returns:
        The rotation, and how much the sum grows with turns about its three principal axes, largest first:
        s₁+s₂, s₁+d·s₃, s₂+d·s₃ with the singular values s of the cross-covariance and d = ±1. Where the last is 0, turns
        about an axis change nothing: the vectors lie on one line.
    """
    weighted = target if weights is None else target * weights[..., None]
    rotation, signed = roma.special_procrustes(weighted.mT @ source, return_singular_values=True)
    first, second, third = signed.unbind(-1)  # the third is d·s₃
    return rotation, torch.stack([first + second, first + third, second + third], -1)


def reliability(noise: Tensor) -> Tensor:
    """Weights (C,) of channels from the variance (C,) of each; one without any noise, an empty shell say, gets a finite one."""
    return 1 / (noise + 1e-9 * noise.max() + torch.finfo(noise.dtype).tiny)
