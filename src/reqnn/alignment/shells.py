"""Closed-form equivariant features of a cloud about its centre; no training.

    F_lk = Σ_i w_i g_k(|p_i|) Y_l(p_i / |p_i|)

g_k are bell-shaped functions of the distance (shells), w_i the share of the surface of point i.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reqnn.alignment.harmonics import DEGREES
from reqnn.alignment.moments import Moments, pooled
from reqnn.extras import need

SHELLS = 10
_REACH = 1.8  # the outermost shell, in units of the cloud's root mean square radius
_NEIGHBOURS = 8


def area_weights(points: Tensor) -> Tensor:
    """The share of the surface of each point, (N, 3) → (N,), summing to 1.

    Proportional to the mean squared distance to the nearest points: points around a gap count for more, which removes most of
    the sampling noise from sums over the points.
    """
    count = len(points)
    if count <= _NEIGHBOURS:
        return points.new_full((count,), 1 / count)
    cloud = points.numpy()
    distance = need("scipy.spatial").cKDTree(cloud).query(cloud, _NEIGHBOURS + 1)[0][:, 1:]
    area = torch.from_numpy(np.square(distance).mean(1))
    area = area + 1e-3 * area.mean()  # coinciding points still count a little
    total = area.sum()
    return area / total if total > 0 else points.new_full((count,), 1 / count)


def centroid(points: Tensor, weights: Tensor) -> Tensor:
    """The centre of the surface, (3,)."""
    return (weights[:, None] * points).sum(0)


def root_mean_square(points: Tensor, weights: Tensor) -> Tensor:
    """The size of a centred cloud, ()."""
    return (weights * points.square().sum(-1)).sum().sqrt()


def shell_moments(points: Tensor, weights: Tensor, degrees: int = DEGREES, shells: int = SHELLS) -> Moments:
    """The features of a centred cloud (N, 3), invariant to its scale."""
    radius = points.norm(dim=-1)
    directions = points / torch.where(radius > 0, radius, 1)[:, None]
    size = root_mean_square(points, weights)
    depth = (radius / torch.where(size > 0, size, 1))[:, None]
    width = _REACH / shells
    middle = width * (torch.arange(shells, dtype=points.dtype) + 0.5)
    # a point at the centre has no direction: the factor depth makes its share vanish smoothly
    bells = depth * torch.exp(-0.5 * ((depth - middle) / width).square())  # (N, K)
    return pooled(directions, weights[:, None] * bells, weights, degrees)
