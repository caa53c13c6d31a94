"""Scans of household objects: which of 38 things is it? Noisy samplings, whole or with a part cut away; no download.

The objects are models of Google Scanned Objects (Downs et al., ICRA 2022, CC BY 4.0); see `scanned_objects/ATTRIBUTION.md`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from reqnn.data.dataset import PointClouds
from reqnn.data.sampling import check_sampling, choose_points, normalise, stream
from reqnn.errors import InputError, check_choice, check_least

FOLDER = Path(__file__).parent / "scanned_objects"
OBJECTS = FOLDER / "objects.npz"
POINT_LEVELS, NORMAL_LEVELS = 4095, 31  # steps from -1 to 1 and from 0 to 1: 12 and 6 bits, which compress well
COPIES = {"train": 40, "validation": 5, "test": 5}
"""Split → samplings of each object."""


class Objects(NamedTuple):
    """The scans: points (O, M, 3) in the unit sphere, normals (O, M, 3), radius (O,) in metres, names."""

    points: np.ndarray
    normals: np.ndarray
    radius: np.ndarray
    names: tuple[str, ...]


@cache
def scanned_objects() -> Objects:
    """All points of each object, in float32, z up."""
    with np.load(OBJECTS) as file:
        points = (file["points"] * (2 / POINT_LEVELS) - 1).astype(np.float32)
        normals = file["normals"].astype(np.float32)
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        return Objects(points, normals, file["radius"], tuple(file["names"].tolist()))


def scanned(
    split: str,
    points: int = 1024,
    seed: int = 0,
    *,
    noise: float = 0.01,
    cut: float = 0.0,
    copies: int | None = None,
    sampling: str = "random",
    short: str = "error",
    normalize: bool = True,
) -> PointClouds:
    """Random samplings of 38 scanned objects; the label is which object it is. The splits are different samplings.

    Args:
        noise: standard deviation of the noise on each coordinate, in radii of the object.
        cut: the share of the surface that a plane of random direction cuts away, as when another object hides it. In the
            split "train" the share is drawn for each cloud, uniform between 0 and `cut`.
        copies: samplings of each object; default 40 for "train", 5 for "validation" and "test".
        sampling, short: as in `load`.
        normalize: centre each cloud and scale it to the unit sphere; otherwise metres.

    Shapes: points (38 · copies, points, 3) float32 and as many normals, without noise; cloud i is of object i % 38.
    """
    check_sampling(sampling, short, points, seed)
    copies = COPIES.get(split, 1) if copies is None else copies
    check_choice(split, COPIES, "scanned: split")
    check_least(copies, "copies")
    if not 0 <= noise < np.inf:
        raise InputError(f"noise is {noise}; it must not be negative")
    if not 0 <= cut < 1:
        raise InputError(f"cut is {cut}; the share to cut away is at least 0 and below 1")
    objects = scanned_objects()
    labels = np.tile(np.arange(len(objects.names)), copies)
    clouds, normals = [], []
    for i, label in enumerate(labels):
        index = len(COPIES) * i + list(COPIES).index(split)  # streams of one split are never used in another
        random = stream("scan", seed, index)
        share = cut * random.random() if split == "train" else cut
        whole = objects.points[label]
        left, away = np.arange(len(whole)), round(share * len(whole))
        if away:  # by a plane of random direction
            left = np.sort(np.argsort((whole * _normal(random, 3)).sum(-1), kind="stable")[:-away])
        where = f"scanned, {objects.names[label]}" + f", {share:.0%} cut away" * bool(share)
        taken = left[choose_points(len(left), points, seed, index, where, sampling, short)]
        cloud = whole[taken] + noise * _normal(random, points, 3)
        clouds.append(normalise(cloud, where) if normalize else (cloud * objects.radius[label]).astype(np.float32))
        normals.append(objects.normals[label, taken])
    found, directions = (torch.from_numpy(np.stack(arrays)) for arrays in (clouds, normals))
    return PointClouds(found, torch.from_numpy(labels), objects.names, "scanned", split, normals=directions)


def _normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers, as sums of six uniform ones: the same on every machine, and none far out."""
    return np.sqrt(2) * (random.random((6, *shape)).sum(0) - 3)
