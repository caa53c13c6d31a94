"""A data set by name, a file layout, and how the shapes that a layout reads become `PointClouds`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from reqnn.data.dataset import PointClouds, held_out
from reqnn.data.files import cached
from reqnn.data.sampling import normalise
from reqnn.data.shape_file import Shape
from reqnn.errors import InputError, check_choice

Sample = tuple[str, Shape, int]
"""Where a shape is, for messages; the shape, whose further columns are normals and the part; its label."""


@dataclass(frozen=True)
class NamedSet:
    """A data set that `reqnn.data.load` knows by name; `summary` says in a line what it is."""

    name: str
    summary: str = ""
    folders: tuple[str, ...] = ()
    """Names of its folder under the data root, the preferred one first."""
    how_to_get: str = ""
    classes: tuple[str, ...] | None = None
    """The class names, if the files do not hold them."""
    only: tuple[str, ...] | None = None
    """The classes to keep, if the folders hold more."""
    up: str | None = None
    """The vertical axis, if the layout does not say."""
    parts: dict[str, int] | None = None
    """Class → how many parts it has, if points are labelled; parts are numbered through in this order."""
    validation: bool = False
    """Whether its files hold a split "val"."""
    embedded: Callable[[Request], PointClouds] | None = None
    """Makes the clouds, if no files are needed."""


@dataclass(frozen=True)
class Request:
    """The arguments of `reqnn.data.load`, and the data set that is meant."""

    known: NamedSet
    split: str
    points: int
    seed: int
    sampling: str
    short: str
    normalize: bool | None
    up: str | None
    variant: str | None
    test_fraction: float
    split_seed: int
    cache: Path


class Layout(NamedTuple):
    """How a data set is stored: a name and the files it is recognised by, for messages; its clouds, or None if it is not."""

    name: str
    looks_for: str
    load: Callable[[Path, Request], PointClouds | None]


def assemble(
    request: Request,
    classes: Sequence[str] | None,
    up: str,
    samples: Iterable[Sample],
    normalize: bool = True,
    files: Sequence[Path] = (),
    copies: bool = False,
) -> PointClouds:
    """The samples of a split as `PointClouds`; `InputError` if there are none.

    `classes` are numbers if they are not known; `normalize` is the layout's default. Clouds of single `files` are cached.
    Samples of the same digest are `copies`: one group.
    """
    known, normalize = request.known, normalize if request.normalize is None else request.normalize
    settings = (request.points, request.seed, request.sampling, request.short)

    def read() -> dict[str, np.ndarray]:
        clouds, labels, normals, parts, digests = [], [], [], [], []
        for where, shape, label in samples:
            cloud, more = shape.sample(where, *settings)
            columns = 0 if more is None else more.shape[1]
            clouds.append(normalise(cloud, where) if normalize else cloud.astype(np.float32))
            labels.append(label)
            normals.append(more[:, :3].astype(np.float32) if more is not None and columns >= 3 else np.zeros(3))
            digests.append(shape.digest)
            if known.parts and (more is None or columns < 4):
                raise InputError(f"{where} has {3 + columns} columns; x y z nx ny nz and the part are needed")
            if known.parts and more is not None:
                parts.append(more[:, 3].astype(np.int64))
        if not clouds:
            raise InputError(f"{known.name}: the split '{request.split}' holds no clouds")
        found = {"points": np.stack(clouds), "labels": np.array(labels, dtype=np.int64)}
        if all(normal.any() for normal in normals):
            found["normals"] = np.stack(normals)
        if copies:
            found["groups"] = np.unique(digests, return_inverse=True)[1].astype(np.int64)
        return found | ({"parts": np.stack(parts)} if parts else {})

    arrays = cached(request.cache, files, [*settings, normalize, classes, known.parts, up], read) if files else read()
    names = tuple(f"{name} {i + 1}" for name, count in (known.parts or {}).items() for i in range(count))
    classes = tuple(map(str, range(int(arrays["labels"].max()) + 1))) if classes is None else tuple(classes)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return PointClouds(classes=classes, name=known.name, split=request.split, up=request.up or up, part_names=names, **tensors)


def check_split(request: Request, known: Sequence[str] = ("train", "test")) -> None:
    """Raise `InputError` unless the files have the requested split."""
    hint = "; a validation set comes from split_validation(train)" if request.split.startswith("val") else ""
    check_choice(request.split, known, f"{request.known.name}: split", hint)


def drawn_split(labels: np.ndarray, groups: np.ndarray, request: Request) -> np.ndarray:
    """The indices of the clouds in the requested split, if the files have none: drawn by the split seed; "all" are all."""
    if request.split == "all":
        return np.arange(len(labels))
    test = held_out(labels, groups, request.test_fraction, request.split_seed)
    return np.flatnonzero(test == (request.split == "test"))
