"""Classify meshes and clouds in files, whichever way they are turned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reqnn.data.cloud_file import sample_surface
from reqnn.data.sampling import choose_points, normalise
from reqnn.data.shape_file import SUFFIXES, read_shape
from reqnn.data.streams import check_seed, stream
from reqnn.errors import InputError
from reqnn.quaternion import random_matrix
from reqnn.train.prediction import predict

DENSE = 2048  # points that a mesh is centred and scaled by, as in the files most data sets come in
BATCH = 16


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files named, and those in the folders named, at any depth, whose ending is that of a mesh or cloud; in order."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        inside = [one for one in sorted(path.rglob("*")) if one.is_file() and one.suffix.lower() in SUFFIXES]
        if path.is_dir() and not inside:
            raise InputError(f"{path} holds no mesh or cloud; files ending in {' '.join(SUFFIXES)} are read")
        found |= dict.fromkeys(inside if path.is_dir() else [path])
    return list(found)


def cloud_in_any_pose(path: str | Path, points: int, seed: int = 0, rotation: Tensor | None = None) -> Tensor:
    """The cloud (points, 3) float32 of a file, centred and in the unit sphere: of a turned copy, the same points turned.

    Random numbers follow from the seed and the number of faces, or of points, and from no coordinate; a mesh is sampled by the
    areas of its faces in the order of the file. A cloud with fewer points is taken as it is. With a `rotation` (3, 3) the file
    is read as if it had been turned.
    """
    check_seed(seed)
    if points < 1:
        raise InputError(f"points is {points}; at least 1 is needed")
    shape, where = read_shape(Path(path)), str(path)
    vertices = shape.vertices if rotation is None else shape.vertices @ rotation.numpy().T
    if shape.faces is not None:
        random = stream("surface", seed, len(shape.faces))
        dense, _ = sample_surface(vertices, shape.faces, max(points, DENSE), random, where)
        return torch.from_numpy(normalise(dense, where)[:points])
    count = len(vertices)
    whole = normalise(vertices, where)
    return torch.from_numpy(whole[choose_points(count, min(points, count), seed, count, where)])


def classify(
    network: Any, files: Sequence[str | Path], points: int | None = None, top: int = 5, seed: int = 0, turned: int = 0
) -> Iterator[dict[str, Any]]:
    """The most probable classes of each file, in order, by a network of `reqnn.load`.

    A record has `file`, `points` and `top`: [{"class", "probability"}, …]; for a file that cannot be classified, `error`. Where
    each is to be `turned` so many times, by random rotations, `turned` says how many copies got the same answer, and how far a
    probability moved.
    """
    if top < 1 or turned < 0:
        raise InputError(f"top is {top} and turned {turned}; at least 1 and 0 are needed")
    check_seed(seed)
    wanted = network.card["points"] if points is None else points
    rotations = random_matrix(turned, torch.Generator().manual_seed(seed), torch.float64)
    for start in range(0, len(files), BATCH):
        read = [_read(file, wanted, seed) for file in files[start : start + BATCH]]
        for _, group in groupby(read, key=lambda one: one[1] if isinstance(one[1], str) else len(one[1])):
            for answer in _answers(network, list(group), top):
                if turned and "top" in answer:
                    answer["turned"] = _turned(network, answer["file"], wanted, seed, rotations)
                yield answer


def _turned(network: Any, file: str, points: int, seed: int, rotations: Tensor) -> dict[str, Any]:
    """How many turned copies of a file get the answer of the file, and the largest change of a probability."""
    upright = cloud_in_any_pose(file, points, seed)
    copies = [cloud_in_any_pose(file, points, seed, rotation) for rotation in rotations]
    probability = predict(network, torch.stack([upright, *copies]), BATCH).double().softmax(-1)
    same = int((probability[1:].argmax(-1) == probability[0].argmax(-1)).sum())
    return {"copies": len(copies), "same": same, "largest_change": float((probability[1:] - probability[0]).abs().max())}


def _read(file: str | Path, points: int, seed: int) -> tuple[str, Tensor | str]:
    try:
        return str(file), cloud_in_any_pose(file, points, seed)
    except InputError as error:
        return str(file), str(error)


def _answers(network: Any, members: list[tuple[str, Tensor | str]], top: int) -> list[dict[str, Any]]:
    """Records of clouds of one size, or of files that could not be read."""
    clouds = [cloud for _, cloud in members if isinstance(cloud, Tensor)]
    if not clouds:
        return [{"file": file, "error": reason} for file, reason in members]
    try:
        probability = predict(network, torch.stack(clouds), BATCH).double().softmax(-1)
    except InputError as error:  # too few points for the network
        return [{"file": file, "error": str(error)} for file, _ in members]
    best = probability.topk(min(top, len(network.classes)))
    return [
        {
            "file": file,
            "points": len(clouds[0]),
            "top": [
                {"class": network.classes[label], "probability": share}
                for label, share in zip(best.indices[i].tolist(), best.values[i].tolist(), strict=True)
            ],
        }
        for i, (file, _) in enumerate(members)
    ]
