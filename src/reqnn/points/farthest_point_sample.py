"""Farthest point sampling, revised to be permutation-invariant (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan

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

    While a graph is exported they are one loop operator: n unrolled steps would take a minute to write and to load.
    """
    axes, tolerance = xyz.mT.contiguous(), tolerance[:, None]

    def step(state: tuple[Tensor, Tensor], count: Tensor | int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        return _step(state, count, axes, rank, tolerance)

    state = (distance, torch.zeros_like(distance))
    if torch.compiler.is_exporting():
        counts = torch.arange(n, dtype=xyz.dtype, device=xyz.device)
        return scan(step, state, counts)[1].squeeze(2).mT
    chosen: list[Tensor] = []
    for count in range(n):
        state, index = step(state, count)
        chosen.append(index)
    return torch.cat(chosen, dim=1)


def _step(
    state: tuple[Tensor, Tensor], count: Tensor | int, axes: Tensor, rank: Tensor, tolerance: Tensor
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The next point (B, 1) and the state after it: distances to the nearest chosen point, and to all in sum, (B, N) each.

    Distances are written out, one rounding an operation, so that the kernel can repeat them to the last bit.
    """
    distance, total = state
    tied = distance >= distance.amax(1, keepdim=True) - tolerance
    lowest = torch.where(tied, rank, axes.shape[2])
    tied = lowest == lowest.amin(1, keepdim=True)
    spread = torch.where(tied, total, -torch.inf)
    tied = spread >= spread.amax(1, keepdim=True) - count * tolerance  # the rounding of a sum of `count` distances
    index = tied.to(torch.int8).argmax(1, keepdim=True)
    square = (axes - axes.gather(2, index[:, None].expand(-1, 3, 1))).square()
    from_point = (square[:, 0] + square[:, 1] + square[:, 2]).sqrt()
    return (torch.minimum(distance, from_point).scatter(1, index, -torch.inf), total + from_point), index


@torch.library.custom_op("reqnn::farthest_point_sample", mutates_args=())
def _opaque_search(xyz: Tensor, n: int) -> Tensor:
    """One node for torch.compile: n steps unrolled would take minutes to compile. torch.export gets the plain steps."""
    return _search(xyz, n)


@_opaque_search.register_fake
def _(xyz: Tensor, n: int) -> Tensor:
    return xyz.new_empty(xyz.shape[0], n, dtype=torch.int64)
