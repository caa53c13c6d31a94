"""3D MNIST's recipe: each dark pixel of a digit becomes a box, and the boxes' outer faces are covered with grids of points."""

from __future__ import annotations

import numpy as np

DEPTH = 6.0  # of a box, whose front is 1 × 1
EDGE, LENGTH = 5, 30  # points along the edges of the front, and along the depth


def pad(image: np.ndarray) -> np.ndarray:
    """A (28, 28) image with an empty border: (30, 30) uint8."""
    return np.pad(image, 1)


def digit_cloud(image: np.ndarray) -> np.ndarray:
    """The points of one padded image (H, W): (M, 3) float32; x is the depth, y goes right, z up.

    Every non-zero pixel has a 5×5 grid on its front and back, and a 5×30 grid on each side towards an empty pixel. All is
    divided by the largest extent and centred on its mean. Neighbouring grids share their edges: some points come twice.
    """
    dark = image > 0
    if not dark.any():
        raise ValueError("the image is empty: no pixel is dark")
    row, column = np.nonzero(dark)
    empty = ~np.pad(dark, 1)
    up, down, left, right = (empty[row + 1 + i, column + 1 + j] for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1)))
    shown = np.stack([np.ones_like(up), np.ones_like(up), up, down, left, right], axis=1)  # (P, 6)
    centre = np.stack([np.zeros(len(row)), column, -row], axis=1)  # (P, 3)
    points = (centre[:, None] + BOX)[np.repeat(shown, FACE_SIZES, axis=1)]
    points = points / max(DEPTH, np.ptp(column) + 1, np.ptp(row) + 1)
    return (points - points.mean(0)).astype(np.float32)


def _box() -> list[np.ndarray]:
    """The grids on the front, back, upper, lower, left and right face of a box around the origin, (m, 3) each."""
    edge, depth = np.linspace(-0.5, 0.5, EDGE), np.linspace(-DEPTH / 2, DEPTH / 2, LENGTH)
    down, right = np.meshgrid(-edge, edge, indexing="ij")
    faces = [_columns(x, right, down) for x in (DEPTH / 2, -DEPTH / 2)]
    along, across = np.meshgrid(depth, edge, indexing="ij")
    faces += [_columns(along, across, z) for z in (0.5, -0.5)]
    faces += [_columns(along, y, -across) for y in (-0.5, 0.5)]
    return faces


def _columns(*columns: np.ndarray | float) -> np.ndarray:
    return np.stack([column.ravel() for column in np.broadcast_arrays(*columns)], axis=1)


FACES = _box()
FACE_SIZES = [len(face) for face in FACES]
BOX = np.concatenate(FACES)  # (650, 3)
