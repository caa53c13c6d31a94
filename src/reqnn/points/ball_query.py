"""Ball query, revised to be permutation-invariant (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.points._coordinates import check_cloud, check_count, check_length, check_query
from reqnn.points.knn import search


def ball_query(xyz: Any, centers: Any, radius: float, k: int) -> Tensor:
    """Indices of the k nearest points within `radius` of each center, where the original takes the first k in storage.

    Points on the sphere count as inside, to rounding. A ball of fewer than k points is padded with the nearest one; an
    empty ball gives the nearest point of the cloud throughout.

    Shapes: xyz (B, N, 3), centers (B, M, 3) -> (B, M, k) int64, nearest first. Paper: section 3.4.
    """
    xyz = check_cloud(xyz, "xyz").detach()
    centers = check_query(xyz, centers, "centers").detach()
    radius = check_length(radius, "radius")
    k = check_count(k, xyz.shape[1], "k")
    return search(xyz, centers, k, radius)
