"""The parts of objects in files, in any orientation, by a network for segmentation; coloured clouds as PLY."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqnn.data.dataset import part_classes
from reqnn.data.files import atomic_file
from reqnn.data.ply import write_ply
from reqnn.data.sampling import check_seed, choose_points, normalise, stream
from reqnn.data.shape_file import read_shape, sample_surface
from reqnn.errors import InputError, check_choice
from reqnn.train.evaluation import segment
from reqnn.train.run import Run
from reqnn.train.task import Segmentation

DENSE = 2048  # points on the surface of a mesh
COLOURS = ((228, 26, 28), (55, 126, 184), (77, 175, 74), (152, 78, 163), (255, 127, 0), (255, 255, 51), (166, 86, 40))
"""Of the parts of an object, in their order (ColorBrewer Set1)."""


def segment_file(run: Run, path: Path, category: str, points: int | None = None, seed: int = 0) -> dict[str, Any]:
    """The part of each point of a file, by the run of a network for segmentation; the category is known.

    The network sees `points` of the cloud (default: as in training), centred and in the unit sphere; each other point has the
    part of the nearest of these. A mesh is sampled on its surface. Random numbers do not depend on the orientation.

    Returns `points` (M, 3) float64 in the units of the file, `parts` (M,) int64 and `names`, the names of the network's parts.
    """
    check_seed(seed)
    names = categories(run)
    check_choice(category, names, "category")
    shape, where = read_shape(path), str(path)
    cloud = shape.vertices
    if shape.faces is not None:
        cloud, _ = sample_surface(cloud, shape.faces, DENSE, stream("surface", seed, len(shape.faces)), where)
    count = len(cloud)
    chosen = choose_points(count, min(points or run.config.points, count), seed, count, where)
    seen = torch.from_numpy(normalise(cloud, where)[chosen])
    task = Segmentation(part_classes=tuple(part_classes(run.classes, names)))
    label = torch.tensor([names.index(category)])
    parts = task.answers(segment(run.model, seen[None], label, task), label)[0]
    places = nearest(torch.from_numpy(cloud), torch.from_numpy(cloud[chosen]))
    return {"points": cloud, "parts": parts[places], "names": run.classes}


def categories(run: Run) -> tuple[str, ...]:
    """The categories whose parts a network knows, in the order of its second input."""
    if run.config.task != "segmentation":
        raise InputError(f"the network is for {run.config.task}; a category is for networks that segment")
    return tuple(dict.fromkeys(name.rpartition(" ")[0] for name in run.classes))


def nearest(points: Tensor, others: Tensor) -> Tensor:
    """The index of the nearest of `others` (K, 3) for each of the points (M, 3): (M,)."""
    return torch.cat([torch.cdist(some, others).argmin(1) for some in points.split(4096)])


def write_labelled_ply(path: Path, points: np.ndarray, parts: Tensor, names: tuple[str, ...]) -> Path:
    """Points (M, 3) with a colour and the number of their part, `label`; the names of the parts are comments of the header."""
    found = sorted(set(parts.tolist()))
    first = {name.rpartition(" ")[0]: i for i, name in reversed(list(enumerate(names)))}  # of each class
    colours = np.array([COLOURS[(i - first[name.rpartition(" ")[0]]) % len(COLOURS)] for i, name in enumerate(names)], np.uint8)
    columns = dict(zip(("red", "green", "blue"), colours[parts.numpy()].T, strict=True))
    columns["label"] = parts.numpy().astype("<i4")
    with atomic_file(path) as partial:
        write_ply(partial, points, columns=columns, comments=[f"label {i}: {names[i]}" for i in found])
    return path
