"""k-nearest-neighbour search (paper, Table 1: needs no revision, but its ties must not be broken by storage order)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points import kernels
from reqnn.points._coordinates import check_cloud, check_count, check_query, values_readable
from reqnn.points.ties import Centered, invariant_rank, tie_tolerance, tied_runs, whole_ties


def knn(xyz: Any, query: Any, k: int) -> Tensor:
    """Indices of the k points of `xyz` nearest to each query, nearest first; tied distances in the invariant order.

    The points found are the same for any orthogonal map of R^D and any order of the points (see `reqnn.points.ties`). Where
    the last place is tied between points that no invariant tells apart, none of them is taken: the nearest point fills up.

    Shapes: xyz (B, N, D), query (B, M, D) -> (B, M, k) int64. Paper: section 3.4.
    """
    same = query is xyz
    xyz = check_cloud(xyz, "xyz", dimension=None).detach()
    query = xyz if same else check_query(xyz, query, "query", dimension=None).detach()
    return search(xyz, query, check_count(k, xyz.shape[1], "k"))


def count_ties(xyz: Any, query: Any, k: int) -> Tensor:
    """Count the queries whose neighbours a symmetry leaves open: more than k points, not duplicates, tie for the first place.

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
    first = (run == 0) & (rank == rank[..., :1])
    apart = _distances(xyz, xyz) > tolerance
    apart = apart.gather(1, index[..., :1].expand(-1, -1, points)).gather(2, index)
    return (first[..., k] & (first & apart).any(-1)).sum(1)


def search(xyz: Tensor, query: Tensor, k: int, radius: float | None = None) -> Tensor:
    """Indices of the k nearest, for checked input, the first in place of those farther than the radius: (B, M, k)."""
    compiling = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
    return (_opaque_search if compiling else _search)(xyz, query, k, radius)


def _search(xyz: Tensor, query: Tensor, k: int, radius: float | None) -> Tensor:
    limit = None if radius is None else radius + tie_tolerance(xyz)
    if kernels.serves(xyz, query) and kernels.serves_width(k, *xyz.shape[1:]):
        return _search_compiled(xyz, query, k, limit)
    index, distance = nearest(xyz, query, k)
    return index if limit is None else torch.where(distance > limit[:, None, None], index[..., :1], index)


@torch.library.custom_op("reqnn::knn", mutates_args=())
def _opaque_search(xyz: Tensor, query: Tensor, k: int, radius: float | None) -> Tensor:
    """One node for torch.compile, which runs the kernel; torch.export gets plain operations."""
    return _search(xyz, query, k, radius)


@_opaque_search.register_fake
def _(xyz: Tensor, query: Tensor, k: int, radius: float | None) -> Tensor:
    return xyz.new_empty(*query.shape[:2], k, dtype=torch.int64)


def nearest(xyz: Tensor, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Indices of the k nearest, and distances of the k before ties are left out, in plain torch: (B, M, k), (B, M, k)."""
    about = Centered.of(xyz)
    return _nearest(xyz, query, k, invariant_rank(xyz, about), tie_tolerance(xyz, about))


def _nearest(xyz: Tensor, query: Tensor, k: int, rank: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor]:
    points = xyz.shape[1]
    distance = _distances(query, xyz)
    rank = rank[:, None].expand_as(distance)
    tolerance = tolerance[:, None, None].expand(-1, distance.shape[1], -1)
    width = min(k + kernels.MARGIN, points)
    near, index = distance.topk(width, dim=-1, largest=False, sorted=True)
    found, cut = _first(near, index, rank.gather(-1, index), tolerance, points, k)
    # the run may go on beyond the margin: sort the whole row
    if width < points and values_readable(xyz) and bool(cut.any()):
        distance, whole = distance[cut].sort(-1)
        more, _ = _first(distance, whole, rank[cut].gather(-1, whole), tolerance[cut], points, k)
        for some, all_of_them in zip(found, more, strict=True):
            some[cut] = all_of_them
    return found


def _search_compiled(xyz: Tensor, query: Tensor, k: int, limit: Tensor | None) -> Tensor:
    """The same by a kernel; what its arithmetic cannot decide is decided here, by the distances of the reference."""
    points, about = xyz.shape[1], Centered.of(xyz)
    rank, tolerance = invariant_rank(xyz, about), tie_tolerance(xyz, about)
    result = kernels.nearest_points(xyz, query, k, about, (rank, tolerance), limit)
    if bool(result.unclear.any()):
        b, m = result.unclear.nonzero(as_tuple=True)
        index, gap = result.candidates[b, m], tolerance[b, None]
        near, place = _distances(query[b, m][:, None], xyz[b[:, None], index])[:, 0].sort(-1)
        index = index.gather(-1, place)
        run = tied_runs(near, gap)
        end = torch.where(run == run[:, k - 1 : k], near, -torch.inf).amax(-1)
        result.unfinished[b, m] = end.double() + gap[:, 0] >= result.beyond[b, m]
        (index, near), _ = _first(near, index, rank[b[:, None], index], gap, points, k)
        result.found[b, m] = index if limit is None else torch.where(near > limit[b, None], index[:, :1], index)
    for b in result.unfinished.any(1).nonzero()[:, 0].tolist():
        for m in result.unfinished[b].nonzero()[:, 0].split(max(1, kernels.BLOCK // points)):
            index, near = (x[0] for x in _nearest(xyz[b, None], query[b, None, m], k, rank[b, None], tolerance[b, None]))
            result.found[b, m] = index if limit is None else torch.where(near > limit[b], index[:, :1], index)
    return result.found


def _first(
    ascending: Tensor, index: Tensor, rank: Tensor, tolerance: Tensor, points: int, k: int
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The first k by tied run, rank and storage, and their distances; and where the k-th is tied with the last candidate.

    Shapes: distances, indices and ranks of candidates, ascending, (…, W) -> ((…, k), (…, k)), (…)
    """
    run = tied_runs(ascending, tolerance)
    place = ((run * points + rank) * points + index).argsort(-1)
    kept = whole_ties(run, rank.gather(-1, place), k)
    cut = run[..., k - 1] == run[..., -1]
    place = place[..., :k]
    index, near = index.gather(-1, place), ascending.gather(-1, place)
    fills = torch.arange(k, device=index.device) >= kept
    return (torch.where(fills, index[..., :1], index), near), cut


def _distances(a: Tensor, b: Tensor) -> Tensor:
    # by differences: x² - 2xy + y² loses half the digits of a small distance
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
