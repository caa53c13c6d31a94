"""Clouds from single files: meshes are sampled on their surface, clouds are subsampled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reqnn.data.sampling import check_sampling, choose_points, normalise
from reqnn.data.shape_file import Shape, read_shape
from reqnn.data.streams import stream
from reqnn.errors import InputError


def read_cloud(
    path: str | Path,
    points: int = 1024,
    seed: int = 0,
    *,
    normalize: bool = True,
    sampling: str = "random",
    short: str = "error",
) -> Tensor:
    """The cloud (points, 3) float32 of a mesh or cloud file: OFF, OBJ, PLY, STL, GLB, XYZ, TXT, PTS, CSV, NPY, NPZ.

    Meshes are sampled uniformly on their surface; clouds are subsampled, and one that is too small is an error unless
    short="repeat". The choice depends on the seed and the bytes of the file, not on its name. The result is centred and
    scaled to the unit sphere unless normalize=False.
    """
    check_sampling(sampling, short, points, seed)
    cloud, _ = shape_cloud(read_shape(Path(path)), str(path), points, seed, sampling, short)
    return torch.from_numpy(normalise(cloud, str(path)) if normalize else cloud.astype(np.float32))


def shape_cloud(
    shape: Shape, where: str, points: int, seed: int, sampling: str = "random", short: str = "error"
) -> tuple[np.ndarray, np.ndarray | None]:
    """Points (N, 3) float64 of a shape in its own units, and their normals (N, 3) if known."""
    index = int.from_bytes(shape.digest[:8], "little")
    if shape.faces is not None:
        return sample_surface(shape.vertices, shape.faces, points, stream("surface", seed, index), where)
    taken = choose_points(len(shape.vertices), points, seed, index, where, sampling, short)
    normals = shape.rest[taken, :3] if shape.rest is not None and shape.rest.shape[1] >= 3 else None
    return shape.vertices[taken], normals


def sample_surface(
    vertices: np.ndarray, faces: np.ndarray, points: int, random: np.random.Generator, where: str = "mesh"
) -> tuple[np.ndarray, np.ndarray]:
    """Points sampled uniformly on the surface of a mesh, and the normals of their faces.

    Shapes: vertices (V, 3), faces (F, 3) -> points (N, 3), normals (N, 3).
    """
    origin = vertices[faces[:, 0]]
    first, second = vertices[faces[:, 1]] - origin, vertices[faces[:, 2]] - origin
    normal = np.cross(first, second)
    area = np.sqrt((normal**2).sum(1))
    total = np.cumsum(area)
    if not (np.isfinite(total[-1]) and total[-1] > 0):
        raise InputError(f"{where}: its {len(faces)} faces have no area to sample")
    face = np.searchsorted(total, random.random(points) * total[-1], side="right")
    face = np.minimum(face, len(faces) - 1)
    u, v = random.random((2, points, 1))
    folded = u + v > 1  # the other half of the parallelogram
    u, v = np.where(folded, 1 - u, u), np.where(folded, 1 - v, v)
    return origin[face] + u * first[face] + v * second[face], normal[face] / area[face, None]
