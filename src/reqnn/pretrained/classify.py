"""Classify meshes and clouds in files, in any orientation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqnn.data.sampling import check_seed, choose_points, normalise, stream
from reqnn.data.shape_file import SUFFIXES, read_shape, sample_surface
from reqnn.errors import InputError, MissingPackageError, check_least, printable
from reqnn.points import inliers
from reqnn.quaternion import random_matrix
from reqnn.train.prediction import predict

DENSE = 2048  # points that a mesh is centred and scaled by, as in the files of most data sets
BATCH = 16


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """The given files, and all mesh and cloud files below the given folders; in order."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        inside = [one for one in sorted(path.rglob("*")) if one.is_file() and one.suffix.lower() in SUFFIXES]
        if path.is_dir() and not inside:
            raise InputError(f"{path} holds no mesh or cloud; known file types are {' '.join(SUFFIXES)}")
        found |= dict.fromkeys(inside if path.is_dir() else [path])
    return list(found)


def other_files(paths: Iterable[str | Path]) -> list[dict[str, str]]:
    """Records of what `find_files` passes over in the given folders: `skipped` for other file types, `error` for dead links."""
    found = []
    for path in (one for folder in map(Path, paths) if folder.is_dir() for one in sorted(folder.rglob("*"))):
        name = printable(str(path))
        if path.is_symlink() and not path.exists():
            found.append({"file": name, "error": f"{name} is a link to {printable(os.readlink(path))}, which does not exist"})
        elif path.is_file() and path.suffix.lower() not in SUFFIXES:
            found.append({"file": name, "skipped": f"no reader for {path.suffix.lower() or 'names without an ending'}"})
    return found


def cloud_in_any_pose(
    path: str | Path,
    points: int,
    seed: int = 0,
    rotation: Tensor | None = None,
    drop_nan: bool = False,
    robust: bool = False,
) -> Tensor:
    """The cloud (points, 3) float32 of a file, centred and in the unit sphere; a rotated copy gives the same points, rotated.

    Random numbers depend on the seed and the number of faces or points only, not on coordinates; a mesh is sampled by the
    areas of its faces in the order of the file. A cloud with fewer points is used as it is. `rotation` (3, 3) rotates the
    file's vertices first; `drop_nan` leaves out points that are not finite, `robust` those far from all others
    (`reqnn.points.inliers`).
    """
    check_seed(seed)
    check_least(points, "points")
    shape, where = read_shape(Path(path), drop_nan), str(path)
    vertices = shape.vertices if rotation is None else shape.vertices @ rotation.numpy().T
    if shape.faces is not None:
        random = stream("surface", seed, len(shape.faces))
        dense, _ = sample_surface(vertices, shape.faces, max(points, DENSE), random, where)
        return torch.from_numpy(normalise(dense, where)[:points])
    if robust:
        vertices = vertices[inliers(torch.from_numpy(vertices)[None])[0].numpy()]
    return cloud_of_vertices(vertices, points, seed, where)


def cloud_of_vertices(vertices: np.ndarray, points: int, seed: int, where: str) -> Tensor:
    """The same for points (V, 3) that are in memory."""
    count = len(vertices)
    return torch.from_numpy(normalise(vertices, where)[choose_points(count, min(points, count), seed, count, where)])


def classify(
    network: Any,
    files: Sequence[str | Path],
    points: int | None = None,
    top: int = 5,
    seed: int = 0,
    rotations: int = 0,
    drop_nan: bool = False,
    robust: bool = False,
) -> Iterator[dict[str, Any]]:
    """The most probable classes of each file, in order, by a network of `reqnn.load`.

    A record has `file`, `points` and `top`: [{"class", "probability"}, …], or `error` for a file that cannot be classified,
    whatever the reason.
    With `rotations` each file is also classified in that many random orientations; `rotated` then holds how many of them
    gave the same answer, and the largest change of a probability. With `robust` clouds lose points far from all others first.
    """
    check_least(top, "top")
    check_least(rotations, "rotations", 0)
    check_seed(seed)
    wanted = network.card["points"] if points is None else points
    cleaning = {"drop_nan": drop_nan, "robust": robust}
    matrices = random_matrix(rotations, torch.Generator().manual_seed(seed), torch.float64)
    for start in range(0, len(files), BATCH):
        read = [_read(file, wanted, seed, cleaning) for file in files[start : start + BATCH]]
        for _, group in groupby(read, key=lambda one: one[1] if isinstance(one[1], str) else len(one[1])):
            for answer in _answers(network, list(group), top):
                file = answer["file"]
                if rotations and "top" in answer:
                    try:
                        answer["rotated"] = _rotated(network, file, wanted, seed, matrices, cleaning)
                    except Exception as error:
                        answer = {"file": file, "error": _why(file, error)}
                yield {**answer, "file": printable(str(file))}


def _why(file: str | Path, error: Exception) -> str:
    """What went wrong with a file, with its name."""
    said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return printable(said if str(file) in said else f"{file}: {said}")


def _rotated(network: Any, file: str | Path, points: int, seed: int, matrices: Tensor, cleaning: dict) -> dict[str, Any]:
    """How many rotated copies of a file get the same answer, and the largest change of a probability."""
    clouds = [cloud_in_any_pose(file, points, seed, rotation, **cleaning) for rotation in (None, *matrices)]
    upright, copies = predict(network, torch.stack(clouds), BATCH).double().softmax(-1).tensor_split([1])
    same = int((copies.argmax(-1) == upright.argmax(-1)).sum())
    return {"copies": len(copies), "same": same, "largest_change": float((copies - upright).abs().max())}


def _read(file: str | Path, points: int, seed: int, cleaning: dict) -> tuple[str | Path, Tensor | str]:
    try:
        return file, cloud_in_any_pose(file, points, seed, **cleaning)
    except MissingPackageError:
        raise
    except Exception as error:  # one file does not end the run
        return file, _why(file, error)


def _answers(network: Any, members: list[tuple[str | Path, Tensor | str]], top: int) -> list[dict[str, Any]]:
    """Records of clouds of one size, or of unreadable files."""
    clouds = [cloud for _, cloud in members if isinstance(cloud, Tensor)]
    if not clouds:
        return [{"file": file, "error": reason} for file, reason in members]
    try:
        probability = predict(network, torch.stack(clouds), BATCH).double().softmax(-1)
    except Exception as error:  # such as too few points for the network
        if len(members) > 1:  # it may be due to one of them
            return [answer for member in members for answer in _answers(network, [member], top)]
        return [{"file": file, "error": _why(file, error)} for file, _ in members]
    answers = []
    for (file, _), shares, labels in zip(members, *probability.topk(min(top, len(network.classes))), strict=True):
        best = zip(labels.tolist(), shares.tolist(), strict=True)
        listed = [{"class": network.classes[label], "probability": share} for label, share in best]
        answers.append({"file": file, "points": len(clouds[0]), "top": listed})
    return answers
