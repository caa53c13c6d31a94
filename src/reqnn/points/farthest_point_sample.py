"""Farthest point sampling, revised to be permutation-invariant (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points import kernels
from reqnn.points._coordinates import check_cloud, check_count
from reqnn.points.ties import Centered, invariant_rank, tie_tolerance


def farthest_point_sample(xyz: Any, n: int) -> Tensor:
    """Indices of n points, each the farthest from those before it, where the centroid c is the first.

    x_i = argmax_x min_{s ∈ S_{i-1}} ‖x - s‖ with S_0 = {c}. The centroid is virtual: it stays in S and is not returned.
    Of the candidates within the tie tolerance of the maximum the lowest rank goes first (see `reqnn.points.ties`); of
    equal ranks, which the points chosen so far may tell apart, the largest Σ_s ‖x - s‖. No point is taken twice.

    Shapes: xyz (B, N, 3) -> (B, n) int64. Paper: section 3.4.
    """
    xyz = check_cloud(xyz, "xyz").detach()
    n = check_count(n, xyz.shape[1], "n")
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        return _opaque_search(xyz, n)
    return _search(xyz, n)


def _search(xyz: Tensor, n: int) -> Tensor:
    """The search, for checked input: (B, N, 3) -> (B, n) int64."""
    compiled = kernels.serves(xyz)
    about = Centered.of(xyz)
    rank, tolerance = invariant_rank(xyz, about), tie_tolerance(xyz, about)
    xyz, distance = about.xyz, about.length
    steps = kernels.farthest_points if compiled else farthest_points
    return steps(xyz, distance, rank, tolerance, n)


def farthest_points(xyz: Tensor, distance: Tensor, rank: Tensor, tolerance: Tensor, n: int) -> Tensor:
    """The steps in plain torch: centred xyz (B, N, 3), their norms and ranks (B, N), tolerance (B,) -> (B, n) int64.

    Distances are written out, one rounding an operation, so that the kernel can repeat them to the last bit.
    """
    x, y, z = xyz.mT.contiguous().unbind(1)
    tolerance = tolerance[:, None]
    total = torch.zeros_like(distance)
    chosen: list[Tensor] = []
    for step in range(n):
        tied = distance >= distance.amax(1, keepdim=True) - tolerance
        lowest = torch.where(tied, rank, xyz.shape[1])
        tied = lowest == lowest.amin(1, keepdim=True)
        spread = torch.where(tied, total, -torch.inf)
        tied = spread >= spread.amax(1, keepdim=True) - step * tolerance  # the rounding of a sum of `step` distances
        index = tied.to(torch.int8).argmax(1, keepdim=True)
        chosen.append(index)
        dx, dy, dz = (axis - axis.gather(1, index) for axis in (x, y, z))
        from_point = (dx * dx + dy * dy + dz * dz).sqrt()
        total = total + from_point
        distance = torch.minimum(distance, from_point).scatter(1, index, -torch.inf)
    return torch.cat(chosen, dim=1)


@torch.library.custom_op("reqnn::farthest_point_sample", mutates_args=())
def _opaque_search(xyz: Tensor, n: int) -> Tensor:
    """One node for torch.compile: n steps unrolled would take minutes to compile. torch.export gets the plain steps."""
    return _search(xyz, n)


@_opaque_search.register_fake
def _(xyz: Tensor, n: int) -> Tensor:
    return xyz.new_empty(xyz.shape[0], n, dtype=torch.int64)
