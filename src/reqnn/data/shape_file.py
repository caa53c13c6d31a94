"""Shapes in files: meshes (OFF, OBJ, PLY, STL, GLB) and clouds (XYZ, TXT, PTS, CSV, NPY, NPZ, PLY, PCD, LAS, LAZ)."""

from __future__ import annotations

import hashlib
import io
import logging
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqnn.data.files import read_bytes, reading
from reqnn.data.off import parse_off
from reqnn.data.pcd import parse_pcd
from reqnn.data.sampling import check_sampling, choose_points, normalise, stream
from reqnn.data.tables import parse_table, points_in_rows
from reqnn.errors import InputError
from reqnn.extras import need

MESHES = (".off", ".obj", ".ply", ".stl", ".glb")
TABLES = (".xyz", ".txt", ".pts", ".csv")
SUFFIXES = (*MESHES, *TABLES, ".npy", ".npz", ".pcd", ".las", ".laz")
ARRAY_NAMES = ("points", "xyz", "pos", "vertices", "data")


@dataclass(frozen=True)
class Shape:
    """A mesh, or a cloud if it has no faces.

    Shapes:
        vertices: (V, 3) float64, in the units of the file; faces: (F, 3) int64; rest: (V, …) further columns of a cloud

    Args:
        digest: SHA-256 of the file's bytes; seeds the choice of points, and identifies duplicates.
    """

    vertices: np.ndarray
    faces: np.ndarray | None
    rest: np.ndarray | None
    digest: bytes

    def sample(
        self, where: str, points: int, seed: int, sampling: str = "random", short: str = "error"
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Points (N, 3) float64 in the units of the file, and further columns of a cloud, or normals (N, 3) of a mesh."""
        index = int.from_bytes(self.digest[:8], "little")
        if self.faces is not None:
            return sample_surface(self.vertices, self.faces, points, stream("surface", seed, index), where)
        taken = choose_points(len(self.vertices), points, seed, index, where, sampling, short)
        return self.vertices[taken], None if self.rest is None else self.rest[taken]


def read_cloud(
    path: str | Path,
    points: int = 1024,
    seed: int = 0,
    *,
    normalize: bool = True,
    sampling: str = "random",
    short: str = "error",
    drop_nan: bool = False,
) -> Tensor:
    """The cloud (points, 3) float32 of a mesh or cloud file: OFF, OBJ, PLY, STL, GLB, XYZ, TXT, PTS, CSV, NPY, NPZ, PCD,
    LAS, LAZ.

    Meshes are sampled uniformly on their surface; clouds are subsampled, and one that is too small is an error unless
    short="repeat". The choice depends on the seed and the bytes of the file, not on its name. The result is centred and
    scaled to the unit sphere unless normalize=False. `drop_nan` leaves out points that are not finite.
    """
    check_sampling(sampling, short, points, seed)
    cloud, _ = read_shape(Path(path), drop_nan).sample(str(path), points, seed, sampling, short)
    return torch.from_numpy(normalise(cloud, str(path)) if normalize else cloud.astype(np.float32))


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


def read_shape(path: Path, drop_nan: bool = False) -> Shape:
    """The shape in a file; `InputError` if it is missing, damaged, empty or not finite.

    `drop_nan` leaves out points of a cloud that are not finite.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: files ending in {suffix or 'nothing'} are not read; known are {' '.join(SUFFIXES)}")
    content = read_bytes(path)
    if not content.strip():
        raise InputError(f"{path} is empty")
    with reading(path, suffix):
        vertices, faces, rest = _parse(content, suffix)
    if not len(vertices):
        raise InputError(f"{path} holds no points")
    finite = np.isfinite(vertices).all(1)
    if not finite.all() and drop_nan and faces is None and finite.any():
        vertices, rest = vertices[finite], None if rest is None else rest[finite]
    elif not finite.all():
        what = f"{path}: point {int(np.argmin(finite))} has NaN or infinite coordinates"
        raise InputError(what if faces is not None else f"{what}; --drop-nan (drop_nan=True) leaves such points out")
    return Shape(vertices, faces, rest, hashlib.sha256(content).digest())


def _parse(content: bytes, suffix: str) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    if suffix in MESHES:
        vertices, faces = parse_off(content) if suffix == ".off" else _parse_mesh(content, suffix)
        return vertices, faces if len(faces) else None, None
    if suffix == ".pcd":
        points, normals = parse_pcd(content)
        return points, None, normals
    if suffix in (".las", ".laz"):
        laspy = need("laspy")
        _check_las(content, suffix)
        try:
            scan = laspy.read(io.BytesIO(content))
        except BaseException as error:
            if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
                raise
            raise ValueError(f"its reader panics: {error}") from error  # lazrs is written in Rust
        return np.stack([np.asarray(axis, dtype=np.float64) for axis in (scan.x, scan.y, scan.z)], 1), None, None
    table = parse_table(content) if suffix in TABLES else _parse_array(content, suffix)
    table = points_in_rows(table) if table.ndim == 2 else table
    if table.ndim != 2 or table.shape[1] < 3:
        several = "; store an organised cloud as array.reshape(-1, 3), several clouds in a file each" if table.ndim == 3 else ""
        raise ValueError(f"it holds an array of shape {table.shape}; (points, 3) or more columns are needed{several}")
    return table[:, :3], None, table[:, 3:] if table.shape[1] > 3 else None


def _parse_mesh(content: bytes, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    """All geometry of the file as one mesh, or as a cloud, with no faces, if nothing in it has faces."""
    trimesh = need("trimesh")
    logging.getLogger("trimesh").addHandler(logging.NullHandler())  # it prints tracebacks if nobody handles its log
    _check_complete(content, suffix)
    options: dict[str, Any] = {"skip_materials": True} if suffix == ".obj" else {}
    scene: Any = trimesh.load(io.BytesIO(content), file_type=suffix[1:], force="scene", process=False, **options)
    parts = [part for part in scene.dump() if hasattr(part, "vertices")]
    if not parts:
        raise ValueError("no geometry is in it")
    parts = [part for part in parts if len(getattr(part, "faces", ()))] or parts
    offsets = np.cumsum([0] + [len(part.vertices) for part in parts])
    faces = [np.asarray(part.faces) + start for part, start in zip(parts, offsets, strict=False) if hasattr(part, "faces")]
    vertices = np.concatenate([np.asarray(part.vertices, dtype=np.float64) for part in parts])
    return vertices, np.concatenate(faces or [np.empty((0, 3))]).astype(np.int64)


def _check_complete(content: bytes, suffix: str) -> None:
    """`ValueError` if a text PLY or STL file is truncated: their readers take what is there silently."""
    if suffix == ".ply":
        header, found, body = content.partition(b"end_header")
        words = [line.split() for line in header.splitlines()] if found and b"format ascii" in header else []
        announced = sum(int(line[2]) for line in words if len(line) == 3 and line[0] == b"element")
        lines = sum(1 for line in body.splitlines() if line.strip())
        if lines < announced:
            raise ValueError(f"the header says {announced} vertices and faces, but there are {lines}")
    text_stl = suffix == ".stl" and content.lstrip()[:5].lower() == b"solid" and b"facet" in content[:1000].lower()
    if text_stl and b"endsolid" not in content[-1000:].lower():
        raise ValueError("its last line, endsolid, is missing")


def _check_las(content: bytes, suffix: str) -> None:
    """`ValueError` if a header announces more than the file can hold: laspy would read on for hours, or end the process."""
    if len(content) < 227 or content[:4] != b"LASF":
        raise ValueError("its header is missing")
    records, _, size, points = struct.unpack_from("<IBHI", content, 100)
    more = 0
    if content[25] >= 4 and len(content) >= 375:  # version 1.4
        more, points = struct.unpack_from("<IQ", content, 243)
    packed = 1 if suffix == ".las" else 1000
    if 54 * records + 60 * more > len(content) or points * max(size, 20) > packed * len(content):
        raise ValueError(f"its header says {points} points and {records + more} records; {len(content)} bytes cannot hold them")
    if suffix == ".laz":
        (start,) = struct.unpack_from("<I", content, 96)
        (table,) = struct.unpack_from("<q", content, start)
        (table,) = struct.unpack_from("<q", content, len(content) - 8) if table == -1 else (table,)
        (chunks,) = struct.unpack_from("<I", content, table + 4) if table >= start else (points + 1,)
        if chunks > points + 1:
            raise ValueError(f"its table says {chunks} chunks of {points} points, or is not there")


def _parse_array(content: bytes, suffix: str) -> np.ndarray:
    if suffix == ".npz" and not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is no npz archive")
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    if suffix == ".npz":
        name = next((name for name in ARRAY_NAMES if name in loaded), loaded.files[0] if len(loaded.files) == 1 else None)
        if name is None:
            raise ValueError(f"it holds {', '.join(loaded.files)}; one of them must be called {' or '.join(ARRAY_NAMES)}")
        loaded = loaded[name]
    if loaded.dtype.kind not in "iuf":
        raise ValueError(f"it holds {loaded.dtype}; numbers are needed")
    return np.asarray(loaded, dtype=np.float64)
