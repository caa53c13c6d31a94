"""A file layout: how it is recognised, and how clouds are read from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from reqnn.data.dataset import PointClouds
from reqnn.data.sampling import choose_points, normalise
from reqnn.data.validation_split import held_out
from reqnn.errors import InputError


@dataclass(frozen=True)
class Request:
    """The arguments of `reqnn.data.load`, passed to a layout."""

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
    """The class names, if the data set is known and its files do not hold them."""
    only: tuple[str, ...] | None = None
    """The classes to keep."""


@dataclass(frozen=True)
class Layout:
    """How a data set is stored on disk.

    Args:
        name: for messages.
        looks_for: the files it is recognised by.
        recognise: whether a folder or file has this layout; reads names and first bytes only.
        load: the clouds of one split.
    """

    name: str
    looks_for: str
    recognise: Callable[[Path], bool]
    load: Callable[[Path, Request], PointClouds]


def fit(
    clouds: np.ndarray, request: Request, where: str, normalize: bool, offset: int = 0
) -> tuple[np.ndarray, list[np.ndarray] | None]:
    """Clouds (S, M, 3) with the requested number of points, (S, N, 3), and the indices taken; None: all, in their order."""
    count, wanted = clouds.shape[1], request.points
    taken = None
    if count != wanted:
        settings = (where, request.sampling, request.short)
        taken = [choose_points(count, wanted, request.seed, offset + i, *settings) for i in range(len(clouds))]
        clouds = pick(clouds, taken)
    if normalize and len(clouds):
        clouds = np.stack([normalise(cloud, f"{where}, cloud {i}") for i, cloud in enumerate(clouds)])
    return clouds, taken


def pick(clouds: np.ndarray, taken: list[np.ndarray] | None) -> np.ndarray:
    """The points at the indices of `fit`: (S, M, 3) -> (S, N, 3)."""
    if taken is None or not len(clouds):
        return clouds
    return np.stack([cloud[index] for cloud, index in zip(clouds, taken, strict=True)])


def assemble(
    clouds: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[str],
    request: Request,
    up: str,
    normals: np.ndarray | None = None,
) -> PointClouds:
    """The clouds of a split as `PointClouds`; `InputError` if there are none."""
    if not len(clouds):
        raise InputError(f"{request.name}: the split '{request.split}' holds no clouds")
    return PointClouds(
        torch.from_numpy(clouds),
        torch.from_numpy(labels),
        tuple(classes),
        request.name,
        request.split,
        request.up or up,
        None if normals is None else torch.from_numpy(normals),
    )


def check_split(request: Request, known: Sequence[str] = ("train", "test")) -> None:
    """Raise `InputError` unless the files have the requested split."""
    if request.split not in known:
        hint = "; a validation set comes from split_validation(train)" if request.split.startswith("val") else ""
        raise InputError(f"{request.name}: split is {request.split!r}; it is one of {', '.join(known)}{hint}")


def file_split(path: Path, labels: np.ndarray, request: Request) -> np.ndarray:
    """The clouds of a single file in the split: all if its name says train or test, else drawn by the split seed."""
    named = next((split for split in ("train", "test") if split in path.stem.lower()), None)
    check_split(request, (named, "all") if named else ("train", "test", "all"))
    if named or request.split == "all":
        return np.arange(len(labels))
    test = held_out(labels, np.arange(len(labels)), request.test_fraction, request.split_seed)
    return np.flatnonzero(test == (request.split == "test"))


def read_lines(path: Path) -> list[str]:
    """The non-empty lines of a text file, stripped; `InputError` if there are none."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check that it is there, and its permissions") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text file ({error})") from error
    lines = [line for line in lines if line]
    if not lines:
        raise InputError(f"{path} is empty; one name per line is needed")
    return lines
