"""Ball query, revised to be permutation-invariant (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points._coordinates import check_cloud, check_count, check_length, check_query
from reqnn.points.knn import search
from reqnn.points.ties import tie_tolerance


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
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        return _opaque_search(xyz, centers, radius, k)
    return search(xyz, centers, k, radius + tie_tolerance(xyz))


@torch.library.custom_op("reqnn::ball_query", mutates_args=())
def _opaque_search(xyz: Tensor, centers: Tensor, radius: float, k: int) -> Tensor:
    """One node for torch.compile, which runs the kernel; torch.export gets plain operations."""
    return search(xyz, centers, k, radius + tie_tolerance(xyz))


@_opaque_search.register_fake
def _(xyz: Tensor, centers: Tensor, radius: float, k: int) -> Tensor:
    return xyz.new_empty(*centers.shape[:2], k, dtype=torch.int64)
