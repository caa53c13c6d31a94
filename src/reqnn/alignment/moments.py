"""Rotation-equivariant sums over the points of a cloud, degree by degree, with their sampling variance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reqnn.alignment.harmonics import DEGREES, harmonics


@dataclass(frozen=True)
class Moments:
    """Equivariant features of one cloud: F_l(R·cloud) = D_l(R) F_l(cloud), whatever the order of the points.

    Attributes:
        values: for each degree l = 1, 2, … the features (C, 2l + 1); degree 1 are vectors in the order (y, z, x).
        noise: for each degree the sampling variance (C,) of one entry.
    """

    values: list[Tensor]
    noise: list[Tensor]


def moments(vectors: Tensor, weights: Tensor, degrees: int = DEGREES) -> Moments:
    """F_lc = Σ_i w_i ‖v_ic‖ Y_l(v_ic / ‖v_ic‖): (N, C, 3), (N,) → `Moments`; degree 1 is the mean vector per channel."""
    length = vectors.norm(dim=-1)
    directions = vectors / torch.where(length > 0, length, 1)[..., None]
    return pooled(directions, weights[:, None] * length, weights, degrees)


def pooled(directions: Tensor, strength: Tensor, weights: Tensor, degrees: int = DEGREES) -> Moments:
    """Σ_i s_ic Y_l(u_ic), with its sampling variance.

    Shapes: directions (N, 3) or (N, C, 3), strength (N, C), which contains the weights (N,).
    """
    values, noise = [], []
    for l, y in enumerate(harmonics(directions, degrees)[1:], start=1):  # noqa: E741 - the field's own letter
        total = strength.T @ y if y.dim() == 2 else torch.einsum("nc,ncm->cm", strength, y)
        spread = (2 * l + 1) * strength.square().sum(0) - total.square().sum(-1) * weights.square().sum()
        values.append(total)
        noise.append(spread.clamp(min=0) / (2 * l + 1))
    return Moments(values, noise)


def from_vectors(vectors: Tensor, noise: Tensor) -> Moments:
    """Degree 1 only: global vectors (C, 3), with the variance (C,) of a coordinate."""
    return Moments([vectors[:, [1, 2, 0]]], [noise])


def to_vectors(found: Moments) -> Tensor:
    """The features of degree 1 as vectors (C, 3)."""
    return found.values[0][:, [2, 0, 1]]
