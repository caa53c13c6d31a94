"""Load lists of files with one shape each; shared by the folder layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from reqnn.data.cache import cache_key, cached
from reqnn.data.cloud_file import shape_cloud
from reqnn.data.dataset import PointClouds
from reqnn.data.layouts.base import Request, assemble
from reqnn.data.sampling import normalise
from reqnn.data.shape_file import read_shape


def load_files(
    files: Sequence[Path], labels: Sequence[int], classes: Sequence[str], request: Request, up: str, normals: bool = True
) -> PointClouds:
    """Clouds of these files, in their order, cached; byte-identical files form a group.

    Args:
        normals: whether columns 4 to 6 of a cloud file are normals.
    """
    normalize = True if request.normalize is None else request.normalize

    def make() -> dict[str, np.ndarray]:
        clouds = np.empty((len(files), request.points, 3), dtype=np.float32)
        directions = np.zeros_like(clouds)
        digests = np.empty(len(files), dtype=np.uint64)
        for i, file in enumerate(files):
            shape = read_shape(file)
            cloud, normal = shape_cloud(shape, str(file), request.points, request.seed, request.sampling, request.short)
            clouds[i] = normalise(cloud, str(file)) if normalize else cloud
            if normal is not None and (normals or shape.faces is not None):
                directions[i] = normal
            digests[i] = int.from_bytes(shape.digest[:8], "little")
        return {"clouds": clouds, "normals": directions, "digests": digests}

    settings = {"normalize": normalize, "normals": normals}
    settings |= {name: getattr(request, name) for name in ("points", "seed", "sampling", "short")}
    arrays = cached(request.cache, cache_key(files, settings), make)
    known = bool(arrays["normals"].any(axis=(1, 2)).all()) and len(files) > 0
    numbers = np.array(labels, dtype=np.int64)
    found = assemble(arrays["clouds"], numbers, classes, request, up, arrays["normals"] if known else None)
    groups = np.unique(arrays["digests"], return_inverse=True)[1]
    return replace(found, groups=torch.from_numpy(groups.astype(np.int64)))
