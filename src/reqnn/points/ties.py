"""When two distances count as tied, and who goes first then: an order that no rotation or reordering changes.

Rounding moves a distance by a few eps·R, where R is the largest distance of a point to the centroid. Sorted distances
whose gaps are at most 16·eps·R therefore form one tied run; features of more than 3 numbers carry the rounding of the
layers before them, and there the gap is eps^⅔·R. A tie goes to the point of lower *rank*. The rank comes from invariants
of the points, each compared with that tolerance in its turn. With u = (x - c)/R and the moments
m_p = Σ ‖u_j‖^p u_j / Σ ‖u_j‖^(p+1), they are

    ‖u‖,   ⟨u, m_2⟩,   ⟨u, m_4⟩,   det(u, m_2, m_4) where D = 3,   uᵀ C u with C = Σ u_j u_jᵀ / Σ ‖u_j‖².

Features have the first two only. The last tells points apart in clouds symmetric about their centroid, where odd moments
vanish. Points of equal rank are duplicates, or images of each other as far as these invariants see. A search takes all of
them or none (`whole_ties`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from reqnn.points._coordinates import distances, values_readable

EPS_PER_TIE = 16


def tie_share(x: Tensor) -> float:
    """Gap up to which distances are tied, relative to the largest distance to the centroid; x: (*, D)."""
    eps = torch.finfo(x.dtype).eps
    return EPS_PER_TIE * eps if x.shape[-1] <= 3 else float(eps ** (2 / 3))


class Centered(NamedTuple):
    """A cloud about its centroid, computed once for all that asks for it."""

    xyz: Tensor  # (B, N, D)
    length: Tensor  # (B, N), ‖x - c‖
    centroid: Tensor  # (B, 1, D), and what its rounding has left of it, which far from the origin is above that of x - c
    remainder: Tensor

    @classmethod
    def of(cls, xyz: Tensor) -> Centered:
        """From coordinates anywhere."""
        centroid = xyz.mean(1, keepdim=True)
        u = xyz - centroid
        remainder = u.mean(1, keepdim=True)
        u = u - remainder if u.requires_grad else u.sub_(remainder)
        return cls(u, torch.linalg.vector_norm(u, dim=-1), centroid, remainder)

    def shift(self, query: Tensor) -> Tensor:
        """Other points about the same centroid: (B, M, D) -> (B, M, D)."""
        return query - self.centroid - self.remainder


def tie_tolerance(xyz: Tensor, about: Centered | None = None) -> Tensor:
    """Gap up to which distances are tied, max_j ‖x_j - c‖ times the `tie_share`: (B, N, D) -> (B,)."""
    length = Centered.of(xyz).length if about is None else about.length
    return tie_share(xyz) * length.amax(1)


def tied_runs(ascending: Tensor, tolerance: Tensor | float) -> Tensor:
    """Number the tied runs along the last, sorted axis, 0, 0, 1, …: a gap above `tolerance` starts a new one."""
    starts = torch.zeros_like(ascending, dtype=torch.int64)
    starts[..., 1:] = ascending.diff(dim=-1) > tolerance
    return starts.cumsum(-1)


def invariant_rank(xyz: Tensor, about: Centered | None = None, fine: bool = False) -> Tensor:
    """Dense rank of the points, equal where the invariants cannot tell them apart: (B, N, D) -> (B, N) int64.

    With `fine` points that differ, yet are equal in all of them, are also distinguished by their mean distance to all others,
    where values can be looked at: the only invariant here that takes N² operations.
    """
    tolerance, about = tie_share(xyz), Centered.of(xyz) if about is None else about
    rank = torch.zeros(xyz.shape[:2], dtype=torch.int64, device=xyz.device)
    for key in _invariants(about):
        rank = _refine(rank, key, tolerance)
        if values_readable(xyz) and bool((rank.amax(1) == xyz.shape[1] - 1).all()):
            return rank  # all points differ: the later, more expensive invariants cannot change that
    if fine and values_readable(xyz):
        for b in _differ(xyz, rank, about).nonzero()[:, 0].tolist():
            u = about.xyz[b] / about.length[b].amax()
            rank[b] = _refine(rank[b, None], distances(u, u).mean(1)[None], tolerance)
    return rank


def _differ(xyz: Tensor, rank: Tensor, about: Centered) -> Tensor:
    """Whether points of equal rank are more than duplicates: (B, N, D), (B, N) -> (B,) bool."""
    rank, order = rank.sort(1)
    apart = xyz.gather(1, order[..., None].expand_as(xyz)).diff(dim=1).abs().amax(-1) > tie_tolerance(xyz, about)[:, None]
    return ((rank.diff(dim=1) == 0) & apart).any(1)


def whole_ties(run: Tensor, rank: Tensor, k: int) -> Tensor:
    """How many of the first k places are taken, such that ties are taken whole or not at all: (…, W) -> (…, 1).

    Points in one run with equal ranks that do not all fit into k places are left out, unless nothing else would be left.

    Shapes: run, rank (…, W), ordered by both, W > k unless these are all points
    """
    if run.shape[-1] <= k:
        return torch.full_like(run[..., :1], k)
    cut = (run[..., :k] == run[..., k : k + 1]) & (rank[..., :k] == rank[..., k : k + 1])
    kept = k - cut.sum(-1, keepdim=True)
    return torch.where(kept > 0, kept, k)


def _invariants(about: Centered) -> Iterator[Tensor]:
    """Invariants of every point, each of size at most 1 and known to a few eps: (B, N), …"""
    u, length = about.xyz, about.length
    radius = length.amax(1, keepdim=True)
    radius = torch.where(radius > 0, radius, 1.0)
    length = length / radius

    def moment(p: int) -> Tensor:  # (B, D, 1)
        # the largest ‖u‖ is 1, so the sum below is at least 1 unless all points are one
        total = (u.mT @ (length**p).unsqueeze(-1)) / radius.unsqueeze(-1)
        return total / (length ** (p + 1)).sum(1).clamp_min(1.0)[:, None, None]

    def along(direction: Tensor) -> Tensor:
        return (u @ direction)[..., 0] / radius

    with torch.autocast("cpu" if u.is_meta else u.device.type, enabled=False):
        yield length
        m2 = moment(2)
        yield along(m2)
        if u.shape[2] > 3:  # features: ties are left out whole, so that coarse classes will do
            return
        m4 = moment(4)
        yield along(m4)
        if u.shape[2] == 3:
            yield along(torch.linalg.cross(m2, m4, dim=1))
        u = u / radius.unsqueeze(-1)
        covariance = u.mT @ u / length.square().sum(1).clamp_min(1.0)[:, None, None]
        yield ((u @ covariance) * u).sum(-1)


def _refine(rank: Tensor, key: Tensor, tolerance: float) -> Tensor:
    """Split every class of equal rank into its tied runs of `key`: (B, N), (B, N) -> (B, N) int64."""
    by_key = key.argsort(1)
    order = by_key.gather(1, rank.gather(1, by_key).argsort(dim=1, stable=True))
    sorted_rank, sorted_key = rank.gather(1, order), key.gather(1, order)
    starts = torch.zeros_like(rank)
    starts[:, 1:] = (sorted_rank.diff(dim=1) > 0) | (sorted_key.diff(dim=1) > tolerance)
    return torch.empty_like(rank).scatter(1, order, starts.cumsum(1))
