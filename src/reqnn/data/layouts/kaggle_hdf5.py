"""3D MNIST as on Kaggle: `{train,test}_point_clouds.h5`, one group per shape with `points` and the attribute `label`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reqnn.data.cache import cache_key, cached
from reqnn.data.dataset import PointClouds
from reqnn.data.duplicates import different_points
from reqnn.data.hdf5 import is_hdf5, open_hdf5, read_field
from reqnn.data.layouts.base import Layout, Request, assemble, check_split, file_split
from reqnn.data.sampling import choose_points, normalise
from reqnn.errors import InputError

FILES = {"train": "train_point_clouds.h5", "test": "test_point_clouds.h5"}
CLASSES = tuple("0123456789")


def recognise(path: Path) -> bool:
    """A folder with one of these files, or an HDF5 file of groups that hold `points`."""
    if path.is_dir():
        return any((path / name).is_file() for name in FILES.values())
    if not is_hdf5(path):
        return False
    with open_hdf5(path) as opened:
        first = opened.get(next(iter(opened), ""))
        return hasattr(first, "keys") and "points" in first


def load(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, in the order of their numbers; points that a cloud holds twice count once."""
    if path.is_dir():
        check_split(request)
        file = path / FILES[request.split]
        if not file.is_file():
            raise InputError(f"{path} holds no {file.name}: the split '{request.split}' is missing; download it too")
    else:
        file = path
    settings = {name: getattr(request, name) for name in ("points", "seed", "sampling", "short", "normalize")}
    with open_hdf5(file) as opened:
        arrays = cached(request.cache, cache_key([file], settings), lambda: _read(opened, file, request))
    clouds, labels = arrays["clouds"], arrays["labels"]
    if not path.is_dir():
        chosen = file_split(path, labels, request)
        clouds, labels = clouds[chosen], labels[chosen]
    return assemble(clouds, labels, request.classes or CLASSES, request, "z")


def _read(opened: Any, file: Path, request: Request) -> dict[str, np.ndarray]:
    names = sorted(opened, key=lambda name: (len(name), name))  # "2" before "10"
    clouds = np.empty((len(names), request.points, 3), dtype=np.float32)
    labels = np.empty(len(names), dtype=np.int64)
    for i, name in enumerate(names):
        where = f"{file}: field '{name}/points'"
        points = _points(opened[name], file, where)
        taken = choose_points(len(points), request.points, request.seed, i, where, request.sampling, request.short)
        clouds[i] = points[taken] if request.normalize is False else normalise(points[taken], where)
        labels[i] = _label(opened[name], f"{file}: field '{name}'", len(request.classes or CLASSES))
    return {"clouds": clouds, "labels": labels}


def _points(group: Any, file: Path, where: str) -> np.ndarray:
    """The different points (M, 3) of a shape, in their order."""
    if not hasattr(group, "keys"):
        raise InputError(f"{where} is missing; each entry is a group that holds 'points'")
    points = read_field(group, "points", file)
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind != "f":
        raise InputError(f"{where} has shape {points.shape} and type {points.dtype}; (points, 3) float32 is needed")
    if not np.isfinite(points).all():
        raise InputError(f"{where} holds NaN or infinite coordinates")
    return different_points(points.astype(np.float32))


def _label(group: Any, where: str, classes: int) -> int:
    if "label" not in group.attrs:
        raise InputError(f"{where} has no attribute 'label'")
    label = np.asarray(group.attrs["label"])
    if label.size != 1 or label.dtype.kind not in "iu" or not 0 <= int(label.item()) < classes:
        raise InputError(f"{where}: the attribute 'label' is {label}; a whole number from 0 to {classes - 1} is needed")
    return int(label.item())


LAYOUT = Layout("3D MNIST's Kaggle files", "train_point_clouds.h5, test_point_clouds.h5, one group per shape", recognise, load)
