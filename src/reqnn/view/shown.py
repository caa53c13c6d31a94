"""The cloud on the page: its points, how it is rotated, which points are left and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from reqnn.data.scanned import scanned, scanned_objects
from reqnn.data.shape_file import SUFFIXES
from reqnn.errors import InputError
from reqnn.pretrained import cloud_in_any_pose

LARGEST = 50_000_000
"""Bytes of an uploaded file."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A cloud as it is shown; buttons and sliders give another one.

    Shapes: points (N, 3) float32, upright and in the unit sphere; surface (S, 3) and normals (S, 3), all points of the scan,
    for the picture; rotation (3, 3) float64; order (M,), the points that are left.
    """

    name: str
    points: Tensor
    label: str | None = None  # what it is, if that is known
    surface: Tensor | None = None
    normals: Tensor | None = None
    rotation: Tensor = field(default_factory=lambda: torch.eye(3, dtype=torch.float64))
    chosen: Tensor | None = None

    @cached_property
    def order(self) -> Tensor:
        """The points that are left, in the order in which networks are given them."""
        return torch.arange(len(self.points)) if self.chosen is None else self.chosen

    def given(self) -> Tensor:
        """What networks are given, (1, M, 3)."""
        return (self.points[self.order].double() @ self.rotation.T).float()[None]

    def rotated(self, rotation: Tensor) -> Shown:
        """In another orientation."""
        return replace(self, rotation=rotation.double())

    def upright(self) -> Shown:
        """Without a rotation, with the same points."""
        return replace(self, rotation=torch.eye(3, dtype=torch.float64))

    def shuffled(self) -> Shown:
        """With its points in another order."""
        return replace(self, chosen=self.order[torch.randperm(len(self.order))])

    def without(self, share: float) -> Shown:
        """Without this share of the points that are left, chosen at random; their order stays."""
        keep = torch.randperm(len(self.order))[round(share * len(self.order)) :]
        return replace(self, chosen=self.order[keep.sort().values])

    def whole(self) -> Shown:
        """With all points, in their first order."""
        return replace(self, chosen=None)


def scanned_object(name: str, points: int) -> Shown:
    """A scanned object: a noisy sampling that no network was trained on, and its whole surface for the picture."""
    objects = scanned_objects()
    index = objects.names.index(name)
    metres = scanned("test", points, copies=1, normalize=False).points[index].double()
    centre = metres.mean(0)
    radius = (metres - centre).norm(dim=-1).max()
    surface = torch.from_numpy(objects.points[index] * objects.radius[index]).double()
    cloud, surface = (((x - centre) / radius).float() for x in (metres, surface))
    return Shown(name, cloud, name, surface, torch.from_numpy(objects.normals[index]))


def read_file(path: Path, points: int) -> Shown:
    """A mesh or a cloud in a file."""
    return Shown(path.name, cloud_in_any_pose(path, points).float())


def read_upload(name: str, content: bytes, points: int) -> Shown:
    """An uploaded file: limited in size, parsed as any other; its name only says which format it has."""
    if len(content) > LARGEST:
        raise InputError(f"{name} has {len(content) / 1e6:.0f} MB; at most {LARGEST / 1e6:.0f} MB are read")
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{name}: files ending in {suffix or 'nothing'} are not read; known are {' '.join(SUFFIXES)}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(content)
        try:
            return replace(read_file(path, points), name=name)
        except InputError as error:
            raise InputError(str(error).replace(str(path), name)) from error
