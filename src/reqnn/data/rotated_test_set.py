"""The paper's test set (section 5): every test shape rotated ten times, by reproducible rotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from reqnn.data.dataset import PointClouds
from reqnn.data.files import atomic_file, reading
from reqnn.data.rotation import check_protocol, rotate_by
from reqnn.data.sampling import check_seed, stream
from reqnn.errors import InputError, check_least

FORMAT = "reqnn rotated test set 1"


@dataclass(frozen=True, eq=False)
class RotatedTestSet(Dataset[tuple[Tensor, int]]):
    """Clouds and the rotations of each; item i is cloud i // copies rotated by its rotation i % copies.

    Clouds are rotated on access, in float64 and then rounded: the same in every batch.

    Shapes:
        matrices: (S, copies, 3, 3) float64, orthonormal with determinant +1
    """

    clouds: PointClouds
    matrices: Tensor
    protocol: str = "AR"
    seed: int | None = None

    def __post_init__(self) -> None:
        shape, count = tuple(self.matrices.shape), len(self.clouds)
        if len(shape) != 4 or shape[0] != count or shape[2:] != (3, 3) or self.matrices.dtype != torch.float64:
            needed = f"{count} clouds need rotations ({count}, copies, 3, 3) float64"
            raise InputError(f"{needed}; given {shape} {self.matrices.dtype}")
        defect = (self.matrices.mT @ self.matrices - torch.eye(3, dtype=torch.float64)).abs()
        if not bool((defect < 1e-9).all()) or not bool((torch.linalg.det(self.matrices) > 0).all()):
            raise InputError("a matrix of the rotated test set is no rotation: MᵀM = 1 and det M = +1 are needed")

    @property
    def copies(self) -> int:
        """Rotations per cloud."""
        return self.matrices.shape[1]

    def __len__(self) -> int:
        return len(self.clouds) * self.copies

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        points, labels = self._items(torch.tensor([range(len(self))[index]]))
        return points[0], int(labels[0])

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rotated clouds (B, N, 3), labels (B,) and item numbers (B,), in order, with B ≤ size."""
        check_least(size, "the batch size")
        for index in torch.arange(len(self)).split(size):
            yield *self._items(index), index

    def _items(self, index: Tensor) -> tuple[Tensor, Tensor]:
        cloud, copy = index // self.copies, index % self.copies
        points, labels = self.clouds.points[cloud], self.clouds.labels[cloud]
        return points if self.protocol == "NR" else rotate_by(points, self.matrices[cloud, copy]), labels

    def save(self, path: str | Path) -> Path:
        """Write the rotations and the fingerprint of the clouds, not the clouds themselves, as a safetensors file."""
        from safetensors.torch import save_file

        seed, clouds = "" if self.seed is None else str(self.seed), self.clouds
        of = {"name": clouds.name, "split": clouds.split, "clouds": clouds.fingerprint()}
        with atomic_file(Path(path)) as partial:
            metadata = {"format": FORMAT, "protocol": self.protocol, "seed": seed, **of}
            save_file({"matrices": self.matrices.contiguous()}, partial, metadata)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, clouds: PointClouds) -> RotatedTestSet:
        """Read a saved set for the same clouds; `InputError` for others."""
        from safetensors import safe_open

        with reading(path, "a rotated test set"), safe_open(path, framework="pt") as file:
            metadata, matrices = file.metadata() or {}, file.get_tensor("matrices")
        if metadata.get("format") != FORMAT:
            raise InputError(f"{path}: its format is {metadata.get('format')!r}; {FORMAT!r} is needed")
        if metadata.get("clouds") != clouds.fingerprint():
            theirs = f"{metadata.get('name')} {metadata.get('split')}, {len(matrices)} clouds"
            given = f"given {clouds.name} {clouds.split}, {tuple(clouds.points.shape)}"
            advice = "Load the data with the same settings (points, seed, sampling), or draw a set: rotated_test_set(clouds)"
            raise InputError(f"{path}: its rotations are for other clouds: {theirs}; {given}. {advice}")
        with reading(path, "a rotated test set"):
            protocol, seed = metadata["protocol"], metadata["seed"]
            check_protocol(protocol)
            return cls(clouds, matrices, protocol, int(seed) if seed else None)


def rotated_test_set(clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0) -> RotatedTestSet:
    """Every cloud with `copies` rotations drawn by the protocol; the same for the same seed on every machine.

    Cloud i has its own random stream, so its rotations depend neither on the other clouds nor on the number of copies.
    """
    check_protocol(protocol)
    check_least(copies, "copies")
    check_seed(seed)
    matrices = np.stack([_rotations(seed, i, protocol, copies) for i in range(len(clouds))]) if len(clouds) else np.empty(0)
    return RotatedTestSet(clouds, torch.from_numpy(matrices.reshape(-1, copies, 3, 3)), protocol, seed)


def _rotations(seed: int, cloud: int, protocol: str, copies: int) -> np.ndarray:
    """Matrices (copies, 3, 3) from the stream (seed, cloud).

    Marsaglia's method from points in the unit disc to S³ needs +, ×, / and √ only, which IEEE 754 rounds identically on
    every machine, unlike a sine.
    """
    if protocol == "NR":
        return np.broadcast_to(np.eye(3), (copies, 3, 3))
    random, disc = stream("rotation", seed, cloud), np.empty((0, 2))
    while len(disc) < 2 * copies:
        points = 2 * random.random((32, 2)) - 1
        square = points[:, 0] ** 2 + points[:, 1] ** 2
        disc = np.concatenate([disc, points[(square > 0) & (square < 1)]])
    disc = disc[: 2 * copies]  # the first points of the stream in the unit disc, not at its centre
    (a, b), (c, d) = disc[0::2].T, disc[1::2].T
    near, far, zero, one = a * a + b * b, c * c + d * d, np.zeros(copies), np.ones(copies)
    if protocol == "AR":
        stretch = np.sqrt((1 - near) / far)
        rows = _matrix(a, b, c * stretch, d * stretch)
    else:
        cosine, sine = a / np.sqrt(near), b / np.sqrt(near)
        about_y = [cosine, zero, sine, zero, one, zero, -sine, zero, cosine]
        rows = about_y if protocol == "y" else [cosine, -sine, zero, sine, cosine, zero, zero, zero, one]
    return np.stack(rows, axis=-1).reshape(copies, 3, 3)


def _matrix(w: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    """The nine entries of the rotation matrices of unit quaternions w + x i + y j + z k, element by element."""
    return [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
