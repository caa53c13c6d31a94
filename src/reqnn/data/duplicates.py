"""Duplicate clouds: equal points, in any order."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def duplicate_groups(points: Tensor) -> Tensor:
    """A group number per cloud, the same for clouds with exactly equal points in any order.

    Two samples of one mesh are not found: pass `groups` to `PointClouds` for those.

    Shapes: (S, N, 3) float32 -> (S,) int64, numbered by first appearance.
    """
    clouds = points.detach().cpu().contiguous().numpy()
    groups = np.arange(len(clouds))
    seen: dict[int, list[int]] = {}
    for i, code in enumerate(point_codes(clouds).sum(axis=1, dtype=np.uint64).tolist()):
        for other in seen.setdefault(code, []):
            if np.array_equal(_sorted(clouds[i]), _sorted(clouds[other])):
                groups[i] = groups[other]
                break
        else:
            seen[code].append(i)
    return torch.from_numpy(np.unique(groups, return_inverse=True)[1].astype(np.int64))


def point_codes(points: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each point: (..., 3) float32 -> (...) uint64. Its sum does not depend on the order."""
    bits = np.ascontiguousarray(points + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0 becomes 0
    mixed = bits[..., 0] * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) + bits[..., 1]
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) + bits[..., 2]
    mixed = mixed * np.uint64(0x94D049BB133111EB)
    codes: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return codes


def different_points(cloud: np.ndarray) -> np.ndarray:
    """A cloud without repeated points: (M, 3) float32 -> (K, 3), in their order."""
    return cloud[np.sort(np.unique(point_codes(cloud), return_index=True)[1])]


def _sorted(cloud: np.ndarray) -> np.ndarray:
    return cloud[np.lexsort(cloud.T)]
