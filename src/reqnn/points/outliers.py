"""Points far from all others, such as stray returns of a scanner: one of them may set the centre and size of a whole cloud."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points._coordinates import check_cloud


def inliers(xyz: Any, factor: float = 4.0) -> Tensor:
    """Which points are at most `factor` median distances from the centre, the mean of these points: (B, N, 3) -> (B, N) bool.

    Mean and median are taken again without the others until nothing changes; no rotation or scale changes the answer.
    """
    xyz = check_cloud(xyz, "xyz").detach().double()
    xyz = xyz / xyz.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(xyz.dtype).tiny)
    kept = torch.ones_like(xyz[..., 0], dtype=torch.bool)
    for _ in range(20):
        centre = torch.where(kept[..., None], xyz, 0).sum(1, keepdim=True) / kept.sum(1)[:, None, None]
        distance = (xyz - centre).norm(dim=-1)
        limit = factor * torch.where(kept, distance, torch.nan).nanmedian(1, keepdim=True).values
        found = distance <= limit
        if torch.equal(found, kept):
            break
        kept = found
    return kept


def without_outliers(xyz: Tensor, factor: float = 4.0) -> Tensor:
    """The cloud with copies of inner points in place of outliers, so that it keeps its size: (B, N, 3) -> (B, N, 3)."""
    kept = inliers(xyz, factor)
    centre = torch.where(kept[..., None], xyz, 0).sum(1, keepdim=True) / kept.sum(1)[:, None, None]
    nearest = torch.where(kept, (xyz - centre).norm(dim=-1), torch.inf).argsort(1)
    number = ((~kept).cumsum(1) - 1).clamp_min(0) % kept.sum(1, keepdim=True)
    copies = xyz.gather(1, nearest.gather(1, number)[..., None].expand_as(xyz))
    return torch.where(kept[..., None], xyz, copies)
