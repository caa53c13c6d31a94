"""Write PLY files with float64 coordinates; trimesh writes float32, which collapses clouds far from the origin."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_ply(path: Path, vertices: np.ndarray, faces: np.ndarray | None = None) -> None:
    """Write vertices (V, 3) and triangles (F, 3) as binary PLY."""
    triangles = np.empty((0, 3)) if faces is None else faces
    rows = np.empty(len(triangles), [("corners", "u1"), ("index", "<i4", 3)])
    rows["corners"], rows["index"] = 3, triangles
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    lines += [f"property double {axis}" for axis in "xyz"]
    lines += [f"element face {len(rows)}", "property list uchar int vertex_indices"] * (faces is not None)
    head = "\n".join([*lines, "end_header", ""]).encode()
    path.write_bytes(head + vertices.astype("<f8").tobytes() + rows.tobytes())
