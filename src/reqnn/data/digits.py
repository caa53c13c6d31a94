"""Handwritten digits as 3D clouds: scikit-learn's 8×8 images, extruded like the boxes of 3D MNIST; no download."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reqnn.errors import check_choice, check_least
from reqnn.extras import need

TRAIN = 1437  # of 1797: the images are ordered by writer, so the test digits are by other writers
DEPTH = 2.5  # height of a fully dark pixel, in pixels


def digits(split: str, points: int = 1024, limit: int | None = None) -> tuple[Tensor, Tensor]:
    """Clouds of the split "train" (1437) or "test" (360) and their labels 0–9; deterministic.

    A pixel of darkness v is a box of height ∝ v on a common floor; points are uniform in the boxes, the cloud is centred and
    scaled to the unit sphere.

    Shapes: clouds (N, points, 3) float32, labels (N,) int64; `limit` keeps the first N of the split.
    """
    check_choice(split, ("train", "test"), "split")
    check_least(points, "points")
    data = need("sklearn.datasets").load_digits()
    chosen = (range(TRAIN) if split == "train" else range(TRAIN, len(data.images)))[:limit]
    clouds = np.stack([_raise(data.images[index], index, points) for index in chosen])
    return torch.from_numpy(clouds).float(), torch.from_numpy(data.target[chosen.start : chosen.stop]).long()


def _raise(image: np.ndarray, index: int, points: int) -> np.ndarray:
    """Points (points, 3) in the boxes of one (8, 8) image with values 0–16; x right, y up, z out of the page."""
    random = np.random.default_rng([8, index])  # one stream per image: a cloud does not depend on the others
    pixel = random.choice(64, size=points, p=image.ravel() / image.sum())
    row, column = np.divmod(pixel, 8)
    inside = random.random((points, 3))
    height = DEPTH * image.ravel()[pixel] / 16
    xyz = np.stack([column + inside[:, 0], 7 - row + inside[:, 1], height * inside[:, 2]], axis=1)
    xyz -= xyz.mean(0)
    return xyz / np.linalg.norm(xyz, axis=1).max()
