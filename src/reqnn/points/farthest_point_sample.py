"""Farthest point sampling, revised to be permutation-invariant (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan

from reqnn.points import kernels
from reqnn.points._coordinates import check_cloud, check_count
from reqnn.points.ties import Centered, invariant_rank, tie_tolerance

SLACK = 8  # tolerances by which the sums that tell points of equal rank apart may differ by rounding


def farthest_point_sample(xyz: Any, n: int) -> Tensor:
    """Indices of n points, each the farthest from those before it, where the centroid c is the first.

    x_i = argmax_x min_{s ∈ S_{i-1}} ‖x - s‖ with S_0 = {c}. The centroid is virtual: it stays in S and is not returned.
    Of the candidates within the tie tolerance of the maximum the lowest rank goes first (see `reqnn.points.ties`). Equal
    ranks are distinguished by the points s_t chosen so far: the largest Σ_t w_t·‖x - s_t‖ is taken, then, of mirror images, the
    largest Σ_t w_t·det(x, s_{t-1}, s_t), with w_t = 0.77^t for the first 16 points. What is tied even then is one point, or
    a symmetry of the cloud and all points chosen so far. No point is taken twice.

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
    rank, tolerance = invariant_rank(xyz, about, fine=True), tie_tolerance(xyz, about)
    xyz, distance = about.xyz, about.length
    if compiled:
        return kernels.farthest_points(xyz, distance, (rank, tolerance, SLACK * tolerance), radius(distance), weights(xyz, n))
    return farthest_points(xyz, distance, rank, tolerance, n)


def farthest_points(xyz: Tensor, distance: Tensor, rank: Tensor, tolerance: Tensor, n: int) -> Tensor:
    """The steps in plain torch: centred xyz (B, N, 3), their norms and ranks (B, N), tolerance (B,) -> (B, n) int64.

    While a graph is exported they are one loop operator: n unrolled steps would take a minute to write and to load.
    """
    axes, tolerance, size = xyz.mT.contiguous(), tolerance[:, None], radius(distance)

    def step(state: State, weight: Tensor) -> tuple[State, Tensor]:
        return _step(state, weight, axes, rank, tolerance, size)

    state = (distance, torch.zeros_like(distance), torch.zeros_like(distance), torch.zeros_like(axes[..., :1]))
    given = weights(xyz, n)
    if torch.compiler.is_exporting():
        return scan(step, state, given)[1].squeeze(2).mT
    chosen: list[Tensor] = []
    for weight in given:
        state, index = step(state, weight)
        chosen.append(index)
    return torch.cat(chosen, dim=1)


def weights(xyz: Tensor, n: int) -> Tensor:
    """w_t: (n,). They fall, so that no two points are alike by accident, and end, so that their sum has few roundings."""
    t = torch.arange(n, dtype=xyz.dtype, device=xyz.device)
    return torch.where(t < 16, 0.77**t, 0.0)


def radius(distance: Tensor) -> Tensor:
    """R, the largest distance to the centroid, or 1 if all are 0: (B, N) -> (B, 1)."""
    largest = distance.amax(1, keepdim=True)
    return torch.where(largest > 0, largest, 1.0)


State = tuple[Tensor, Tensor, Tensor, Tensor]
"""Distances to the nearest chosen point, weighted sums of distances and of determinants over all, (B, N); the last point."""


def _step(state: State, weight: Tensor, axes: Tensor, rank: Tensor, tolerance: Tensor, size: Tensor) -> tuple[State, Tensor]:
    """The next point (B, 1) and the state after it.

    Distances are written out, one rounding an operation, so that the kernel can repeat them to the last bit.
    """
    distance, total, sides, last = state
    tied = distance >= distance.amax(1, keepdim=True) - tolerance
    lowest = torch.where(tied, rank, axes.shape[2])
    tied = lowest == lowest.amin(1, keepdim=True)
    for key in (total, sides):
        key = torch.where(tied, key, -torch.inf)
        tied = key >= key.amax(1, keepdim=True) - SLACK * tolerance
    index = tied.to(torch.int8).argmax(1, keepdim=True)
    point = axes.gather(2, index[:, None].expand(-1, 3, 1))
    square = (axes - point).square()
    from_point = (square[:, 0] + square[:, 1] + square[:, 2]).sqrt()
    side = (axes * torch.linalg.cross(last / size[..., None], point / size[..., None], dim=1)).sum(1)
    total, sides = total + weight * from_point, sides + weight * side
    return (torch.minimum(distance, from_point).scatter(1, index, -torch.inf), total, sides, point), index


@torch.library.custom_op("reqnn::farthest_point_sample", mutates_args=())
def _opaque_search(xyz: Tensor, n: int) -> Tensor:
    """One node for torch.compile: n steps unrolled would take minutes to compile. torch.export gets the plain steps."""
    return _search(xyz, n)


@_opaque_search.register_fake
def _(xyz: Tensor, n: int) -> Tensor:
    return xyz.new_empty(xyz.shape[0], n, dtype=torch.int64)
