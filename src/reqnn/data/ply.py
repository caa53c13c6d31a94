"""Write PLY files with float64 coordinates; trimesh writes float32, which collapses clouds far from the origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

_WORDS = {"<f8": "double", "|u1": "uchar", "<i4": "int"}


def write_ply(
    path: Path,
    vertices: np.ndarray,
    faces: np.ndarray | None = None,
    columns: Mapping[str, np.ndarray] | None = None,
    comments: Sequence[str] = (),
) -> None:
    """Write vertices (V, 3), triangles (F, 3) and further columns (V,) uint8 or int32 of the vertices as binary PLY."""
    values = {**dict(zip("xyz", vertices.astype("<f8").T, strict=True)), **(columns or {})}
    table = np.rec.fromarrays(list(values.values()), dtype=[(name, column.dtype) for name, column in values.items()])
    triangles = np.empty((0, 3)) if faces is None else faces
    rows = np.empty(len(triangles), [("corners", "u1"), ("index", "<i4", 3)])
    rows["corners"], rows["index"] = 3, triangles
    lines = ["ply", "format binary_little_endian 1.0", *(f"comment {text}" for text in comments)]
    lines += [f"element vertex {len(vertices)}", *(f"property {_WORDS[table.dtype[name].str]} {name}" for name in values)]
    lines += [f"element face {len(rows)}", "property list uchar int vertex_indices"] * (faces is not None)
    path.write_bytes("\n".join([*lines, "end_header", ""]).encode() + table.tobytes() + rows.tobytes())
