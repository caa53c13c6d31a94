"""The objects that the figures show, and the data that their networks are trained on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from reqnn import data, quaternion
from reqnn.errors import InputError

if TYPE_CHECKING:
    from reqnn.train import Run

REAL, SHAPENET, EMBEDDED = "modelnet40", "shapenet", "digits"
SHOWN = {
    REAL: ("airplane", "chair", "guitar", "car"),
    SHAPENET: ("Airplane", "Chair", "Guitar", "Car"),
    EMBEDDED: ("2", "4", "5", "7"),
}

AXES = ((0.46, 0.68, 0.56), (-0.44, -0.61, 0.66), (0.34, 0.94, 0.00), (0.16, 0.83, 0.53))
ANGLES = (60.0, 45.0, 30.0, 120.0)
"""The four rotations of figure 2, in degrees; the axes are printed rounded and are normalised here."""


def paper_rotations() -> Tensor:
    """The identity and the four rotations of figure 2, (5, 3, 3) float64: its columns (a) to (e)."""
    axes = torch.nn.functional.normalize(torch.tensor(AXES, dtype=torch.float64), dim=-1)
    angles = torch.tensor(ANGLES, dtype=torch.float64).deg2rad()
    rotations = quaternion.to_matrix(quaternion.from_axis_angle(axes, angles))
    return torch.cat([torch.eye(3, dtype=torch.float64)[None], rotations])


@dataclass(frozen=True)
class Objects:
    """Test objects to show.

    Shapes: points (S, N, 3) float64
    """

    points: Tensor
    names: tuple[str, ...]
    data: str
    up: str


def choose_data(*wanted: str) -> str:
    """The first of these data sets that is on this machine, by default ModelNet40; else the digits."""
    for name in wanted or (REAL,):
        with suppress(InputError):
            data.load(name, "test", points=16)
            return name
    return EMBEDDED


def choose_objects(name: str, points: int) -> Objects:
    """The first test object of each class that is shown."""
    clouds = data.load(name, "test", points=points)
    labels = [clouds.classes.index(shown) for shown in SHOWN[name]]
    index = [int((clouds.labels == label).nonzero()[0]) for label in labels]
    return Objects(clouds.points[index].double(), SHOWN[name], name, clouds.up)


def trained(runs: Path, name: str, quiet: bool = False, **settings: Any) -> Run:
    """The network of these settings: trained, or resumed from its folder."""
    from reqnn.train import fit, preset

    return fit(preset("quick", **settings, out=str(runs / name)), resume=True, quiet=quiet)
