"""Labelled point clouds in memory; which of them are copies; a validation split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from reqnn.data.sampling import check_seed, stream
from reqnn.errors import InputError, check_choice, check_share


@dataclass(frozen=True, eq=False)
class PointClouds(Dataset[tuple[Tensor, int]]):
    """Clouds of one size with labels; item i is (points (N, 3) float32, label).

    Shapes:
        points: (S, N, 3) float32; labels: (S,) int64; normals: (S, N, 3) float32; groups: (S,) int64; parts: (S, N) int64

    Args:
        classes: the class names; label i is classes[i].
        name: of the data set, such as "modelnet40".
        split: "train", "test", …
        up: the vertical axis, "x", "y" or "z".
        groups: samples of one group (copies of one object) stay on the same side of a split.
        parts: the part of each point; part i is part_names[i].
        part_names: "Chair 1", "Chair 2", …: the class of the object, and the number of the part in it.
    """

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str = ""
    split: str = ""
    up: str = "z"
    normals: Tensor | None = None
    groups: Tensor | None = None
    parts: Tensor | None = None
    part_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        points, labels, where = self.points, self.labels, self.name or "points"
        if points.ndim != 3 or points.shape[-1] != 3:
            raise InputError(f"{where}: clouds have shape (samples, points, 3); given {tuple(points.shape)}")
        if points.dtype != torch.float32:
            raise InputError(f"{where}: clouds are float32; given {points.dtype}")
        if points.numel() and not bool(torch.stack(points.aminmax()).isfinite().all()):  # NaN passes through aminmax
            bad = int((~torch.isfinite(points)).flatten(1).any(1).nonzero()[0])
            raise InputError(f"{where}: cloud {bad} holds NaN or infinite coordinates")
        count = len(points)
        if labels.shape != (count,) or labels.dtype != torch.int64:
            raise InputError(f"{where}: {count} clouds need labels ({count},) int64; given {tuple(labels.shape)}")
        unknown = labels[(labels < 0) | (labels >= len(self.classes))]
        if len(unknown):
            raise InputError(f"{where}: a label is {unknown[0]}; there are {len(self.classes)} classes, numbered from 0")
        check_choice(self.up, "xyz", f"{where}: the vertical axis")
        shapes = {"normals": points.shape, "groups": (count,), "parts": points.shape[:2]}
        for name, needed in shapes.items():
            value = getattr(self, name)
            if value is not None and value.shape != needed:
                raise InputError(f"{where}: {name} have shape {tuple(value.shape)}; {tuple(needed)} is needed")
        if self.parts is None:
            return
        parts, known = self.parts, torch.tensor([*part_classes(self.part_names, self.classes), -1])  # −1 for too large ones
        wrong = (parts < 0) | (known[parts.clamp(0, len(known) - 1)] != labels[:, None])
        if bool(wrong.any()):
            cloud, point = wrong.nonzero()[0].tolist()
            raise InputError(
                f"{where}: point {point} of cloud {cloud}, a {self.classes[int(labels[cloud])]}, has part "
                f"{int(parts[cloud, point])}, which is none of that class"
            )

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.points[index], int(self.labels[index])

    @property
    def counts(self) -> dict[str, int]:
        """The number of clouds of each class."""
        return dict(zip(self.classes, torch.bincount(self.labels, minlength=len(self.classes)).tolist(), strict=True))

    def fingerprint(self) -> str:
        """SHA-256 of points, labels and parts."""
        digest = hashlib.sha256(str(tuple(self.points.shape)).encode())
        digest.update(self.points.cpu().contiguous().numpy().astype("<f4", copy=False).data)
        for numbers in (self.labels,) if self.parts is None else (self.labels, self.parts):
            digest.update(numbers.cpu().contiguous().numpy().astype("<i8", copy=False).data)
        return digest.hexdigest()

    def subset(self, indices: Sequence[int] | Tensor, split: str | None = None) -> PointClouds:
        """The clouds at these indices, in their order."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        fields = ("points", "labels", "normals", "groups", "parts")
        taken = {name: value[index] for name in fields if (value := getattr(self, name)) is not None}
        return replace(self, **taken, split=self.split if split is None else split)


def part_classes(part_names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """The class of each part, by its name: "Chair 2" is a part of the class "Chair"."""
    names = [name.rpartition(" ")[0] for name in part_names]
    if unknown := sorted(set(names) - set(classes)):
        raise InputError(f"parts of {', '.join(unknown)} are named; the classes are {', '.join(classes)}")
    return [classes.index(name) for name in names]


def split_validation(train: PointClouds, fraction: float = 0.1, seed: int = 0) -> tuple[PointClouds, PointClouds]:
    """Split a training set into (train, validation) by the seed; both keep the order of the clouds.

    Each class gives the fraction of its clouds, rounded, and at least one; a class of a single object stays in train. Clouds
    of one group stay together: `train.groups` if given, else exactly equal clouds (see `duplicate_groups`).
    """
    check_share(fraction, "fraction")
    check_seed(seed)
    groups = duplicate_groups(train.points) if train.groups is None else train.groups
    chosen = held_out(train.labels.numpy(), groups.numpy(), fraction, seed)
    if not chosen.any():
        raise InputError(f"{train.name}: no class has two objects or more, so its {len(train)} clouds cannot be split")
    return train.subset(np.flatnonzero(~chosen).tolist()), train.subset(np.flatnonzero(chosen).tolist(), "validation")


def held_out(labels: np.ndarray, groups: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """The samples that `split_validation` holds out: labels (S,), groups (S,) -> (S,) bool."""
    _, first, group, size = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    of_class = labels[first]  # (G,) the class of each group
    out = np.zeros(len(first), dtype=bool)
    for label in np.unique(of_class):
        members = np.flatnonzero(of_class == label)
        members = members[np.argsort(first[members])]
        order = members[np.argsort(stream("split", seed, int(label)).random(len(members)), kind="stable")]
        wanted = max(1, round(fraction * int(size[members].sum())))
        for one in order[:-1]:  # the last object of a class always stays
            if size[one] <= wanted:
                out[one] = True
                wanted -= size[one]
    return out[group]


def duplicate_groups(points: Tensor) -> Tensor:
    """A group number per cloud, the same for clouds with exactly equal points in any order.

    Two samples of one mesh are not found: pass `groups` to `PointClouds` for those.

    Shapes: (S, N, 3) float32 -> (S,) int64, numbered by first appearance.
    """
    clouds = points.detach().cpu().contiguous().numpy()
    groups = np.arange(len(clouds))
    seen: dict[int, list[int]] = {}
    for i, code in enumerate(point_codes(clouds).sum(axis=1, dtype=np.uint64).tolist()):
        for other in seen.setdefault(code, []):
            if np.array_equal(*(clouds[j][np.lexsort(clouds[j].T)] for j in (i, other))):
                groups[i] = groups[other]
                break
        else:
            seen[code].append(i)
    return torch.from_numpy(np.unique(groups, return_inverse=True)[1].astype(np.int64))


def point_codes(points: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each point: (..., 3) float32 -> (...) uint64; the sum over a cloud does not depend on the order."""
    bits = np.ascontiguousarray(points + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0 becomes 0
    keys = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
    codes: np.ndarray = (bits * keys).sum(-1, dtype=np.uint64)
    return codes


def different_points(cloud: np.ndarray) -> np.ndarray:
    """A cloud without repeated points: (M, 3) float32 -> (K, 3), in their order."""
    return cloud[np.sort(np.unique(point_codes(cloud), return_index=True)[1])]
