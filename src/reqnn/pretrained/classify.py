"""Classify meshes and clouds in files, in any orientation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Records of what `find_files` passes over in folders: `error` for dead links and closed folders, else `skipped`."""
    found = []

    def note(what: str, why: str) -> None:
        found.append({"file": name, what: f"{name} {why}" if what == "error" else why})

    for path in (one for folder in map(Path, paths) if folder.is_dir() for one in sorted(folder.rglob("*"))):
        name = printable(str(path))
        if path.is_symlink() and not path.exists():
            note("error", f"is a link to {printable(os.readlink(path))}, which does not exist")
        elif path.is_dir() and path.is_symlink():
            note("skipped", "links to folders, which are not followed: name them")
        elif path.is_dir():
            if not os.access(path, os.R_OK | os.X_OK):
                note("error", "is a folder that cannot be opened; check its permissions")
        elif not path.is_file():
            note("skipped", "no regular files")
        elif path.suffix.lower() not in SUFFIXES:
            note("skipped", f"no reader for {path.suffix.lower() or 'names without an ending'}")
    return found


def cloud_in_any_pose(
    path: str | Path,
    points: int,
    seed: int = 0,
    rotation: Tensor | None = None,
    drop_nan: bool = False,
    robust: bool = False,
) -> Tensor:
    """The cloud (points, 3) float64 of a file, centred and in the unit sphere; a rotated copy gives the same points, rotated.

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
        return torch.from_numpy(normalise(dense, where, np.float64)[:points])
    if robust:
        vertices = vertices[inliers(torch.from_numpy(vertices)[None])[0].numpy()]
    return cloud_of_vertices(vertices, points, seed, where)


def cloud_of_vertices(vertices: np.ndarray, points: int, seed: int, where: str) -> Tensor:
    """The same for points (V, 3) that are in memory."""
    count = len(vertices)
    near = normalise(vertices, where, np.float64)
    return torch.from_numpy(near[choose_points(count, min(points, count), seed, count, where)])


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
    poses = (None, *random_matrix(rotations, torch.Generator().manual_seed(seed), torch.float64))

    def read(file: str | Path) -> Tensor:
        """A file upright and in all orientations, (1 + rotations, N, 3)."""
        return torch.stack([cloud_in_any_pose(file, wanted, seed, pose, drop_nan, robust) for pose in poses])

    def answers(clouds: Tensor) -> list[dict[str, Any]]:
        logits = predict(network, clouds.flatten(0, 1), BATCH).double().unflatten(0, clouds.shape[:2])
        found = []
        for upright, *copies in logits.softmax(-1).unbind():
            best = zip(*(x.tolist() for x in upright.topk(min(top, len(network.classes)))), strict=True)
            listed = [{"class": network.classes[label], "probability": share} for share, label in best]
            found.append({"points": clouds.shape[2], "top": listed})
            if copies:
                same = sum(int(one.argmax() == upright.argmax()) for one in copies)
                change = max(float((one - upright).abs().max()) for one in copies)
                found[-1]["rotated"] = {"copies": len(copies), "same": same, "largest_change": change}
        return found

    for start in range(0, len(files), BATCH):
        some = files[start : start + BATCH]
        for file, answer in zip(some, answer_each(some, [attempt(file, read, file) for file in some], answers), strict=True):
            yield {"file": printable(str(file)), **({"error": answer} if isinstance(answer, str) else answer)}


def answer_each(names: Sequence[Any], clouds: Sequence[Tensor | str], answers: Callable[[Tensor], list[Any]]) -> list[Any]:
    """The answer to each cloud, clouds of one size together; or why it could not be read or answered, as text."""
    found: list[Any] = list(clouds)
    sizes: dict[torch.Size, list[int]] = {}
    for i, cloud in enumerate(clouds):
        if isinstance(cloud, Tensor):
            sizes.setdefault(cloud.shape, []).append(i)
    for places in sizes.values():
        each = attempt(names[places[0]], answers, torch.stack([found[i] for i in places]))
        if isinstance(each, str):  # it may be due to one of them
            single = len(places) == 1
            each = [each] if single else [answer_each([names[i]], [found[i]], answers)[0] for i in places]
        for i, answer in zip(places, each, strict=True):
            found[i] = answer
    return found


def attempt(name: str | Path, make: Callable[..., Any], *given: Any) -> Any:
    """What `make` returns; or why it fails, as text with this name: one cloud does not end the run."""
    try:
        return make(*given)
    except MissingPackageError:
        raise
    except Exception as error:
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return printable(said if str(name) in said else f"{name}: {said}")
