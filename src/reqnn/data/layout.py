"""A file layout of a data set: how it is recognised, and what all layouts share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from reqnn.data.dataset import PointClouds, held_out
from reqnn.data.sampling import choose_points, normalise
from reqnn.errors import InputError, check_choice


@dataclass(frozen=True)
class Request:
    """The arguments of `reqnn.data.load`, and what is known about a named data set."""

    split: str
    points: int = 1024
    seed: int = 0
    sampling: str = "random"
    short: str = "error"
    normalize: bool | None = None
    up: str | None = None
    variant: str | None = None
    test_fraction: float = 0.2
    split_seed: int = 0
    cache: Path | None = None
    name: str = ""
    classes: tuple[str, ...] | None = None
    """The class names, if the files do not hold them."""
    only: tuple[str, ...] | None = None
    """The classes to keep."""
    parts: dict[str, int] | None = None
    """Class → how many parts it has, if points are labelled."""

    def settings(self) -> dict[str, int | str]:
        """What decides the points of a cloud, apart from its file."""
        return {"points": self.points, "seed": self.seed, "sampling": self.sampling, "short": self.short}


class Layout(NamedTuple):
    """How a data set is stored: a name and the files it is recognised by, for messages; whether a path has it; its clouds."""

    name: str
    looks_for: str
    recognise: Callable[[Path], bool]
    load: Callable[[Path, Request], PointClouds]


def fit(
    clouds: np.ndarray, request: Request, where: str, normalize: bool, offset: int = 0
) -> tuple[np.ndarray, np.ndarray | None]:
    """Clouds (S, M, 3) with the requested number of points, and the indices (S, N, 1) taken; None: all, in their order."""
    taken = None
    if clouds.shape[1] != request.points and len(clouds):
        settings = (where, request.sampling, request.short)
        numbers = range(offset, offset + len(clouds))
        chosen = [choose_points(clouds.shape[1], request.points, request.seed, i, *settings) for i in numbers]
        taken = np.stack(chosen)[..., None]
        clouds = np.take_along_axis(clouds, taken, 1)
    if normalize and len(clouds):
        clouds = np.stack([normalise(cloud, f"{where}, cloud {i}") for i, cloud in enumerate(clouds)])
    return clouds, taken


def assemble(
    clouds: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[str],
    request: Request,
    up: str,
    normals: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    parts: np.ndarray | None = None,
) -> PointClouds:
    """The clouds of a split as `PointClouds`; `InputError` if there are none."""
    if not len(clouds):
        raise InputError(f"{request.name}: the split '{request.split}' holds no clouds")
    directions, copies, pieces = (None if array is None else torch.from_numpy(array) for array in (normals, groups, parts))
    points, numbers = torch.from_numpy(clouds), torch.from_numpy(labels)
    names = tuple(f"{name} {i + 1}" for name, count in (request.parts or {}).items() for i in range(count))
    about = (tuple(classes), request.name, request.split, request.up or up)
    return PointClouds(points, numbers, *about, directions, copies, pieces, names)


def check_split(request: Request, known: Sequence[str] = ("train", "test")) -> None:
    """Raise `InputError` unless the files have the requested split."""
    hint = "; a validation set comes from split_validation(train)" if request.split.startswith("val") else ""
    check_choice(request.split, known, f"{request.name}: split", hint)


def drawn_split(labels: np.ndarray, groups: np.ndarray, request: Request) -> np.ndarray:
    """The indices of the clouds in the requested split, if the files have none: drawn by the split seed; "all" are all."""
    if request.split == "all":
        return np.arange(len(labels))
    test = held_out(labels, groups, request.test_fraction, request.split_seed)
    return np.flatnonzero(test == (request.split == "test"))


def file_split(path: Path, clouds: PointClouds, request: Request) -> PointClouds:
    """The clouds of a single file in the split: all if its name says train or test, else drawn by the split seed."""
    named = next((split for split in ("train", "test") if split in path.stem.lower()), None)
    check_split(request, (named, "all") if named else ("train", "test", "all"))
    labels = clouds.labels.numpy()
    chosen = np.arange(len(labels)) if named else drawn_split(labels, np.arange(len(labels)), request)
    if not len(chosen):
        raise InputError(f"{request.name}: the split '{request.split}' holds no clouds")
    return clouds.subset(chosen.tolist())
