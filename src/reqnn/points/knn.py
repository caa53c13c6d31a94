"""k-nearest-neighbour search (paper, Table 1: needs no revision, but its ties must not be broken by storage order)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points import kernels
from reqnn.points._coordinates import check_cloud, check_count, check_query, distances, values_readable
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
    about = Centered.of(xyz)
    tolerance = tie_tolerance(xyz, about)[:, None, None]
    near, index = distances(query, xyz).sort(-1)
    rank = invariant_rank(xyz, about)[:, None].expand_as(index).gather(2, index)
    rank = torch.where(tied_runs(near, tolerance) == 0, rank, points)
    first, one = rank == rank.amin(-1, keepdim=True), rank.argmin(-1, keepdim=True)
    apart = (distances(xyz, xyz) > tolerance).gather(1, index.gather(2, one).expand_as(index)).gather(2, index)
    return ((first.sum(-1) > k) & (first & apart).any(-1)).sum(1)


def search(xyz: Tensor, query: Tensor, k: int, radius: float | None = None) -> Tensor:
    """Indices of the k nearest, for checked input, the first in place of those farther than the radius: (B, M, k)."""
    compiling = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
    return (_opaque_search if compiling else _search)(xyz, query, k, radius)


def _search(xyz: Tensor, query: Tensor, k: int, radius: float | None) -> Tensor:
    about = Centered.of(xyz)
    rank, tolerance = invariant_rank(xyz, about), tie_tolerance(xyz, about)
    limit = None if radius is None else radius + tolerance
    if kernels.serves(xyz, query) and kernels.serves_search(xyz, query, k):
        return _search_compiled(xyz, query, k, about, rank, tolerance, limit)
    return _nearest(xyz, query, k, rank, tolerance, limit)


@torch.library.custom_op("reqnn::knn", mutates_args=())
def _opaque_search(xyz: Tensor, query: Tensor, k: int, radius: float | None) -> Tensor:
    """One node for torch.compile, which runs the kernel; torch.export gets plain operations."""
    return _search(xyz, query, k, radius)


@_opaque_search.register_fake
def _(xyz: Tensor, query: Tensor, k: int, radius: float | None) -> Tensor:
    return xyz.new_empty(*query.shape[:2], k, dtype=torch.int64)


def _nearest(xyz: Tensor, query: Tensor, k: int, rank: Tensor, tolerance: Tensor, limit: Tensor | None) -> Tensor:
    """The search in plain torch: (B, M, k)."""
    points, distance = xyz.shape[1], distances(query, xyz)
    rank = rank[:, None].expand_as(distance)
    tolerance = tolerance[:, None, None].expand(-1, distance.shape[1], -1)
    limit = None if limit is None else limit[:, None, None].expand_as(tolerance)
    width = min(k + kernels.MARGIN, points)
    near, index = distance.topk(width, dim=-1, largest=False, sorted=True)
    found, cut = _first(near, index, rank.gather(-1, index), tolerance, points, k, limit)
    # the run may go on beyond the margin: sort the whole row
    if width < points and values_readable(xyz) and bool(cut.any()):
        near, index = distance[cut].sort(-1)
        limit = None if limit is None else limit[cut]
        found[cut] = _first(near, index, rank[cut].gather(-1, index), tolerance[cut], points, k, limit)[0]
    return found


def _search_compiled(
    xyz: Tensor, query: Tensor, k: int, about: Centered, rank: Tensor, tolerance: Tensor, limit: Tensor | None
) -> Tensor:
    """The same by a kernel; what its arithmetic cannot decide is decided here, by the distances of the reference."""
    points = xyz.shape[1]
    result = kernels.nearest_points(xyz, query, k, about, (rank, tolerance), limit)
    if bool(result.unclear.any()):
        b, m = result.unclear.nonzero(as_tuple=True)
        index, gap = result.candidates[b, m], tolerance[b, None]
        near, place = distances(query[b, m][:, None], xyz[b[:, None], index])[:, 0].sort(-1)
        index = index.gather(-1, place)
        run = tied_runs(near, gap)
        end = torch.where(run == run[:, k - 1 : k], near, -torch.inf).amax(-1)
        result.unfinished[b, m] = end.double() + gap[:, 0] >= result.beyond[b, m]
        far = None if limit is None else limit[b, None]
        result.found[b, m] = _first(near, index, rank[b[:, None], index], gap, points, k, far)[0]
    for b in result.unfinished.any(1).nonzero()[:, 0].tolist():
        given = (rank[b, None], tolerance[b, None], None if limit is None else limit[b, None])
        for m in result.unfinished[b].nonzero()[:, 0].split(max(1, kernels.BLOCK // points)):
            result.found[b, m] = _nearest(xyz[b, None], query[b, None, m], k, *given)[0]
    return result.found


def _first(
    ascending: Tensor, index: Tensor, rank: Tensor, tolerance: Tensor, points: int, k: int, limit: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The first k by tied run, rank and storage, up to a limit; and where the k-th is tied with the last candidate.

    Shapes: distances, indices and ranks of candidates, ascending, (…, W) -> (…, k), (…)
    """
    run = tied_runs(ascending, tolerance)
    place = ((run * points + rank) * points + index).argsort(-1)
    kept = whole_ties(run, rank.gather(-1, place), k)
    place = place[..., :k]
    fills = torch.arange(k, device=index.device) >= kept
    fills = fills if limit is None else fills | (ascending.gather(-1, place) > limit)
    index = index.gather(-1, place)
    return torch.where(fills, index[..., :1], index), run[..., k - 1] == run[..., -1]
