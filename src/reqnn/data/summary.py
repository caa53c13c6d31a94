"""A summary of a data set: counts, sizes, duplicates, ties."""

from __future__ import annotations

from typing import Any

import torch

from reqnn.data.dataset import PointClouds, different_points, duplicate_groups

LOOKED_AT, NEIGHBOURS = 32, 20  # clouds checked for ties; among so many nearest neighbours


def summarise(clouds: PointClouds) -> dict[str, Any]:
    """Figures of one split, for JSON.

    `duplicates` are clouds equal to an earlier one. Of the first `looked_at` clouds, `coincident` hold a point twice, and
    `tied` is the share of points with two of the 20 nearest neighbours at equal distance, up to float32 rounding.
    """
    some = clouds.points[:LOOKED_AT]
    groups = duplicate_groups(clouds.points) if clouds.groups is None else clouds.groups
    return {
        "split": clouds.split,
        "clouds": len(clouds),
        "points": clouds.points.shape[1],
        "classes": len(clouds.classes),
        "counts": clouds.counts,
        "up": clouds.up,
        "normals": clouds.normals is not None,
        "parts": len(clouds.part_names),
        "radius": [round(float(value), 4) for value in clouds.points.norm(dim=-1).amax(1).aminmax()],
        "duplicates": len(clouds) - len(groups.unique()),
        "looked_at": len(some),
        "tied": round(sum(_tied(cloud) for cloud in some) / max(len(some), 1), 4),
        "coincident": sum(len(different_points(cloud.numpy())) < len(cloud) for cloud in some),
        "fingerprint": clouds.fingerprint(),
    }


def shared_clouds(first: PointClouds, second: PointClouds) -> int:
    """The number of clouds of the second set that are also in the first."""
    if first.points.shape[1] != second.points.shape[1]:
        return 0
    groups = duplicate_groups(torch.cat([first.points, second.points]))
    return int(torch.isin(groups[len(first) :], groups[: len(first)]).sum())


def _tied(cloud: torch.Tensor) -> float:
    """The share of points (N, 3) with tied nearest neighbours."""
    distances = torch.cdist(cloud.double(), cloud.double())
    near = distances.topk(min(NEIGHBOURS + 1, len(cloud)), largest=False).values[:, 1:]  # the first is the point itself
    tolerance = 4 * torch.finfo(torch.float32).eps * cloud.abs().max()
    return float((near.diff(dim=1) <= tolerance).any(1).double().mean())
