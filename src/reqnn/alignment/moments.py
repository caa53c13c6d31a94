"""Rotation-equivariant sums over the points of a cloud, degree by degree, with their sampling variance.

Without a network they are closed-form, F_lk = Σ_i w_i g_k(|p_i|) Y_l(p_i / |p_i|), with bell-shaped functions g_k of the
distance from the centre (shells) and the share w_i of the surface of point i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reqnn.alignment.harmonics import DEGREES, harmonics
from reqnn.extras import need

SHELLS = 10
_REACH = 1.8  # the outermost shell, in units of the cloud's root mean square radius
_NEIGHBOURS = 8


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
    return pooled(vectors / torch.where(length > 0, length, 1)[..., None], weights[:, None] * length, weights, degrees)


def shell_moments(points: Tensor, weights: Tensor, degrees: int = DEGREES, shells: int = SHELLS) -> Moments:
    """The closed-form features of a centred cloud (N, 3), invariant to its scale."""
    radius = points.norm(dim=-1)
    size = root_mean_square(points, weights)
    depth = (radius / torch.where(size > 0, size, 1))[:, None]
    width = _REACH / shells
    middle = width * (torch.arange(shells, dtype=points.dtype) + 0.5)
    # a point at the centre has no direction: the factor depth makes its share vanish smoothly
    bells = depth * torch.exp(-0.5 * ((depth - middle) / width).square())  # (N, K)
    return pooled(points / torch.where(radius > 0, radius, 1)[:, None], weights[:, None] * bells, weights, degrees)


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


def to_vectors(found: Moments) -> Tensor:
    """The features of degree 1, whose order is (y, z, x), as vectors (C, 3)."""
    return found.values[0][:, [2, 0, 1]]


def area_weights(points: Tensor) -> Tensor:
    """The share of the surface of each point, (N, 3) → (N,), summing to 1.

    Proportional to the mean squared distance to the nearest points: points around a gap count for more, which removes most of
    the sampling noise from sums over the points.
    """
    area = points.new_zeros(len(points))
    if len(points) > _NEIGHBOURS:
        cloud = points.numpy()
        distance = need("scipy.spatial").cKDTree(cloud).query(cloud, _NEIGHBOURS + 1)[0][:, 1:]
        area = torch.from_numpy(np.square(distance).mean(1))
    area = area + 1e-3 * area.mean()  # coinciding points still count a little
    return area / area.sum() if area.sum() > 0 else torch.full_like(area, 1 / len(points))


def centroid(points: Tensor, weights: Tensor) -> Tensor:
    """The centre of the surface, (3,)."""
    return (weights[:, None] * points).sum(0)


def root_mean_square(points: Tensor, weights: Tensor) -> Tensor:
    """The size of a centred cloud, ()."""
    return (weights * points.square().sum(-1)).sum().sqrt()
