"""Read one shape from a file: meshes (OFF, OBJ, PLY, STL, GLB) and clouds (XYZ, TXT, PTS, CSV, NPY, NPZ, PLY)."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reqnn.data.off import parse_off
from reqnn.errors import InputError, MissingPackageError
from reqnn.extras import need

MESHES = (".off", ".obj", ".ply", ".stl", ".glb")
TABLES = (".xyz", ".txt", ".pts", ".csv")
ARRAYS = (".npy", ".npz")
SUFFIXES = MESHES + TABLES + ARRAYS
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


def read_shape(path: Path) -> Shape:
    """The shape in a file; `InputError` if it is missing, damaged, empty or not finite."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: files ending in {suffix or 'nothing'} are not read; known are {' '.join(SUFFIXES)}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check that it is there, and its permissions") from error
    if not content.strip():
        raise InputError(f"{path} is empty")
    try:
        vertices, faces, rest = _parse(content, suffix)
    except MissingPackageError:
        raise
    except Exception as error:  # the readers raise what they like on a damaged file
        raise InputError(f"{path} cannot be read as {suffix}, or is truncated: {error}") from error
    if not len(vertices):
        raise InputError(f"{path} holds no points")
    if not np.isfinite(vertices).all():
        bad = int(np.argmin(np.isfinite(vertices).all(1)))
        raise InputError(f"{path}: point {bad} has NaN or infinite coordinates")
    return Shape(vertices, faces, rest, hashlib.sha256(content).digest())


def _parse(content: bytes, suffix: str) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    if suffix == ".off":
        vertices, faces = parse_off(content)
        return vertices, faces if len(faces) else None, None
    if suffix in MESHES:
        return *_parse_mesh(content, suffix), None
    table = _parse_table(content) if suffix in TABLES else _parse_array(content, suffix)
    if table.ndim != 2 or table.shape[1] < 3:
        raise ValueError(f"it holds an array of shape {table.shape}; (points, 3) or more columns are needed")
    return table[:, :3], None, table[:, 3:] if table.shape[1] > 3 else None


def _parse_mesh(content: bytes, suffix: str) -> tuple[np.ndarray, np.ndarray | None]:
    """All geometry of the file as one mesh, or as a cloud if nothing in it has faces."""
    trimesh = need("trimesh")
    _check_complete(content, suffix)
    options: dict[str, Any] = {"skip_materials": True} if suffix == ".obj" else {}
    scene: Any = trimesh.load(io.BytesIO(content), file_type=suffix[1:], force="scene", process=False, **options)
    parts = [part for part in scene.dump() if hasattr(part, "vertices")]
    solid = [part for part in parts if len(getattr(part, "faces", ()))]
    if not parts:
        raise ValueError("no geometry is in it")
    vertices = np.concatenate([np.asarray(part.vertices, dtype=np.float64) for part in solid or parts])
    if not solid:
        return vertices, None
    offsets = np.cumsum([0] + [len(part.vertices) for part in solid[:-1]])
    faces = np.concatenate([np.asarray(part.faces) + offset for part, offset in zip(solid, offsets, strict=True)])
    return vertices, faces.astype(np.int64)


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


def _parse_table(content: bytes) -> np.ndarray:
    """A point per line, separated by commas, semicolons or blanks; lines that begin with # are comments."""
    text = content.decode("utf-8").replace(",", " ").replace(";", " ")
    return np.loadtxt(io.StringIO(text), dtype=np.float64, ndmin=2)


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
