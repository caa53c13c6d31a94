"""k-nearest-neighbour search (paper, Table 1: needs no revision, but its ties must not be broken by storage order)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points._coordinates import check_cloud, check_count, check_query, values_readable
from reqnn.points.ties import invariant_order, invariant_rank, tie_tolerance, tied_runs

MARGIN = 8  # how far beyond the k-th neighbour a tied run may reach before the whole row is sorted


def knn(xyz: Any, query: Any, k: int) -> Tensor:
    """Indices of the k points of `xyz` nearest to each query, nearest first; tied distances in the invariant order.

    The points found are the same for any orthogonal map of R^D and any order of the points (see `reqnn.points.ties`).

    Shapes: xyz (B, N, D), query (B, M, D) -> (B, M, k) int64. Paper: section 3.4.
    """
    xyz = check_cloud(xyz, "xyz", dimension=None).detach()
    query = check_query(xyz, query, "query", dimension=None).detach()
    return nearest(xyz, query, check_count(k, xyz.shape[1], "k"))[0]


def count_ties(xyz: Any, query: Any, k: int) -> Tensor:
    """Count the queries whose set of k neighbours the tie breaks leave open: a symmetry, not duplicate points.

    Shapes: xyz (B, N, D), query (B, M, D) -> (B,) int64.
    """
    xyz = check_cloud(xyz, "xyz", dimension=None).detach()
    query = check_query(xyz, query, "query", dimension=None).detach()
    points = xyz.shape[1]
    k = check_count(k, points, "k")
    if k == points:
        return torch.zeros(xyz.shape[0], dtype=torch.int64, device=xyz.device)
    index, distance = nearest(xyz, query, points)
    tolerance = tie_tolerance(xyz)[:, None, None]
    run = tied_runs(distance.sort(-1).values, tolerance)
    rank = invariant_rank(xyz)[:, None].expand_as(index).gather(2, index)
    last = slice(k - 1, k)
    equal = (run == run[..., last]) & (rank == rank[..., last])
    apart = _distances(xyz, xyz) > tolerance
    apart = apart.gather(1, index[..., last].expand(-1, -1, points)).gather(2, index)
    return (equal[..., k] & (equal & apart).any(-1)).sum(1)


def nearest(xyz: Tensor, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Indices and distances of the k nearest, for checked input: (B, N, D), (B, M, D) -> (B, M, k), (B, M, k)."""
    points = xyz.shape[1]
    distance = _distances(query, xyz)
    order = invariant_order(xyz)[:, None].expand_as(distance)
    tolerance = tie_tolerance(xyz)[:, None, None].expand(-1, distance.shape[1], -1)
    width = min(k + MARGIN, points)
    index, near, cut = _first(distance, order, tolerance, k, width)
    if width < points and values_readable(xyz) and bool(cut.any()):
        index[cut], near[cut], _ = _first(distance[cut], order[cut], tolerance[cut], k, points)
    return index, near


def _first(distance: Tensor, order: Tensor, tolerance: Tensor, k: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """First k by tied run, then order, among the `width` nearest; and where the run of the k-th is not over by then."""
    near, index = distance.topk(width, dim=-1, largest=False, sorted=True)
    run = tied_runs(near, tolerance)
    place = (run * distance.shape[-1] + order.gather(-1, index)).argsort(-1)[..., :k]
    return index.gather(-1, place), near.gather(-1, place), run[..., k - 1] == run[..., -1]


def _distances(a: Tensor, b: Tensor) -> Tensor:
    # by differences: x² - 2xy + y² loses half the digits of a small distance
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
