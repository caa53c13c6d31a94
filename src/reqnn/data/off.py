"""OFF meshes, including ModelNet's with the counts on the first line; truncated files are refused.

trimesh reads OFF too, but six times slower, without faces of five corners, and takes what is left of a truncated file.
"""

from __future__ import annotations

import re

import numpy as np


def parse_off(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) float64 and triangles (F, 3) int64; polygons become fans. `ValueError` if the file is invalid."""
    lines = [line for raw in content.splitlines() if (line := raw.partition(b"#")[0].strip())]
    header = re.match(rb"[CN]?OFF\s*", lines[0]) if lines else None
    if header is None:
        raise ValueError("it does not begin with OFF")
    body = [line for line in (lines[0][header.end() :], *lines[1:]) if line]
    counts = body[0].split() if body else []
    if len(counts) < 2:
        raise ValueError("the numbers of vertices and faces are missing")
    vertices, faces = int(counts[0]), int(counts[1])
    if len(body) - 1 < vertices + faces:
        raise ValueError(f"the header says {vertices} vertices and {faces} faces; {len(body) - 1} lines follow: truncated")
    try:
        points = np.loadtxt(body[1 : 1 + vertices], usecols=(0, 1, 2), ndmin=2) if vertices > 0 else np.empty((0, 3))
    except ValueError as error:
        raise ValueError(f"a vertex has fewer than three coordinates, or other words than numbers ({error})") from error
    return points, _triangles(body[1 + vertices : 1 + vertices + faces], vertices)  # normals or colours are left out


def _triangles(lines: list[bytes], vertices: int) -> np.ndarray:
    tokens = b" ".join(lines).split()
    if len(tokens) == 4 * len(lines) and all(size == b"3" for size in tokens[::4]):
        corners = np.array(tokens).astype(np.int64).reshape(-1, 4)[:, 1:]
    else:
        corners = np.array([fan for line in lines for fan in _fan(line)], dtype=np.int64).reshape(-1, 3)
    if len(corners) and not 0 <= corners.min() <= corners.max() < vertices:
        raise ValueError(f"a face names a vertex beyond the {vertices} of the file")
    return corners


def _fan(line: bytes) -> list[tuple[int, int, int]]:
    """The triangles of one polygon, without colours."""
    size, *rest = line.split()
    corners = [int(token) for token in rest[: int(size)]]
    if len(corners) != int(size):
        raise ValueError(f"a face of {int(size)} corners names {len(corners)}")
    return [(corners[0], corners[i], corners[i + 1]) for i in range(1, len(corners) - 1)]
