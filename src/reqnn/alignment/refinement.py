"""Iterative closest points, from a start that is already close."""

from __future__ import annotations

import numpy as np
import roma
import torch
from torch import Tensor

from reqnn.extras import need

_ITERATIONS = 50


def refine(source: Tensor, target: Tensor, rotation: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """Rotation (3, 3) and translation (3,) between centred clouds (N, 3), (M, 3) by trimesh's ICP, begun at a rotation.

    Each point is matched with the nearest of the other cloud, in turn with Procrustes on the matches; it finds the nearest
    optimum, so the start decides. `size` is the unit in which changes are measured.
    """
    start = np.eye(4)
    start[:3, :3] = rotation.numpy()
    motion, _, _ = need("trimesh.registration").icp(
        (source / size).numpy(),
        (target / size).numpy(),
        initial=start,
        threshold=1e-8,
        max_iterations=_ITERATIONS,
        reflection=False,
        scale=False,
    )
    found = torch.from_numpy(np.ascontiguousarray(motion))
    return roma.special_procrustes(found[:3, :3]), found[:3, 3] * size
