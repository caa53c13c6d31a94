"""Labelled point clouds in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.data import Dataset

from reqnn.errors import InputError


@dataclass(frozen=True, eq=False)
class PointClouds(Dataset[tuple[Tensor, int]]):
    """Clouds of one size with labels; item i is (points (N, 3) float32, label).

    Shapes:
        points: (S, N, 3) float32; labels: (S,) int64; normals: (S, N, 3) float32; groups: (S,) int64

    Args:
        classes: the class names; label i is classes[i].
        name: of the data set, such as "modelnet40".
        split: "train", "test", …
        up: the vertical axis, "x", "y" or "z".
        groups: samples of one group (copies of one object) stay on the same side of a split.
    """

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str = ""
    split: str = ""
    up: str = "z"
    normals: Tensor | None = None
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        check_clouds(self.points, self.name or "points")
        count = len(self.points)
        if self.labels.shape != (count,) or self.labels.dtype != torch.int64:
            raise InputError(f"{self.name}: {count} clouds need labels ({count},) int64; given {tuple(self.labels.shape)}")
        if count and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            worst = int(self.labels.min()) if int(self.labels.min()) < 0 else int(self.labels.max())
            raise InputError(f"{self.name}: a label is {worst}; there are {len(self.classes)} classes, numbered from 0")
        if self.up not in ("x", "y", "z"):
            raise InputError(f"{self.name}: the vertical axis is {self.up!r}; it is 'x', 'y' or 'z'")
        if self.normals is not None and self.normals.shape != self.points.shape:
            raise InputError(f"{self.name}: normals {tuple(self.normals.shape)} for points {tuple(self.points.shape)}")
        if self.groups is not None and self.groups.shape != (count,):
            raise InputError(f"{self.name}: {count} clouds need groups ({count},); given {tuple(self.groups.shape)}")

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.points[index], int(self.labels[index])

    @property
    def counts(self) -> dict[str, int]:
        """The number of clouds of each class."""
        counts = torch.bincount(self.labels, minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, counts, strict=True))

    def fingerprint(self) -> str:
        """SHA-256 of points and labels."""
        digest = hashlib.sha256(str(tuple(self.points.shape)).encode())
        digest.update(self.points.cpu().contiguous().numpy().astype("<f4", copy=False).data)
        digest.update(self.labels.cpu().contiguous().numpy().astype("<i8", copy=False).data)
        return digest.hexdigest()

    def subset(self, indices: Sequence[int] | Tensor, split: str | None = None) -> PointClouds:
        """The clouds at these indices, in their order."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        return replace(
            self,
            points=self.points[index],
            labels=self.labels[index],
            normals=None if self.normals is None else self.normals[index],
            groups=None if self.groups is None else self.groups[index],
            split=self.split if split is None else split,
        )


def check_clouds(points: Tensor, where: str) -> None:
    """Raise `InputError` unless these are clouds (S, N, 3) of finite float32 numbers."""
    if points.ndim != 3 or points.shape[-1] != 3:
        raise InputError(f"{where}: clouds have shape (samples, points, 3); given {tuple(points.shape)}")
    if points.dtype != torch.float32:
        raise InputError(f"{where}: clouds are float32; given {points.dtype}")
    if points.numel() and not bool(torch.stack(points.aminmax()).isfinite().all()):  # NaN passes through aminmax
        bad = int((~torch.isfinite(points)).flatten(1).any(1).nonzero()[0])
        raise InputError(f"{where}: cloud {bad} holds NaN or infinite coordinates")
