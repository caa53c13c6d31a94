"""What `align` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import roma
import torch
from torch import Tensor

from reqnn import quaternion

AMBIGUOUS_BELOW = 0.75
"""An alignment is called ambiguous below this confidence."""


@dataclass(frozen=True)
class Alignment:
    """The motion that brings a source cloud onto a target: target ≈ scale · rotation · source + translation.

    Shapes (with B in front for batches): rotation (3, 3); translation (3,); matrix (4, 4)

    Attributes:
        rotation: a rotation matrix.
        translation: added after the rotation; brings the rotated centre of the source onto that of the target.
        confidence: from 0 to 1, how clearly this rotation fits better than any at least 20° from it; near 0 for a symmetric
            object, and lower the worse the clouds fit. For batches a tensor (B,).
        ambiguous: whether the confidence is below 0.75; for batches a tensor (B,).
        reason: why it is ambiguous, or ""; for batches a list.
        residual: root mean square distance to the nearest point of the other cloud after the motion; for batches (B,).
        relative_residual: the same in root mean square radii of the target; for batches (B,).
        scale: the factor of the sizes, 1 unless it was asked for; for batches (B,).
    """

    rotation: Tensor
    translation: Tensor
    confidence: float | Tensor
    ambiguous: bool | Tensor
    reason: str | list[str]
    residual: float | Tensor
    relative_residual: float | Tensor
    scale: float | Tensor = 1.0

    @property
    def matrix(self) -> Tensor:
        """The motion as a matrix of homogeneous coordinates, (4, 4)."""
        scaled = self.rotation * torch.as_tensor(self.scale).to(self.rotation)[..., None, None]
        matrix: Tensor = roma.Rigid(scaled, self.translation).to_homogeneous()
        return matrix

    @property
    def axis(self) -> Tensor:
        """The axis of the rotation, (3,)."""
        return quaternion.to_axis_angle(quaternion.from_matrix(self.rotation))[0]

    @property
    def angle(self) -> Tensor:
        """The angle of the rotation in degrees, ()."""
        return quaternion.to_axis_angle(quaternion.from_matrix(self.rotation))[1] * (180 / math.pi)

    def apply(self, points: Tensor) -> Tensor:
        """Points (N, 3) of the source, moved onto the target."""
        return points @ self.matrix[..., :3, :3].mT + self.translation[..., None, :]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        names = [item.name for item in fields(self)] + ["matrix", "axis", "angle"]
        values = {name: getattr(self, name) for name in names}
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in values.items()}


def stacked(results: list[Alignment]) -> Alignment:
    """Alignments of single pairs as one batch."""
    columns: dict[str, Any] = {item.name: [getattr(one, item.name) for one in results] for item in fields(Alignment)}
    for name, values in columns.items():
        if isinstance(values[0], Tensor):
            columns[name] = torch.stack(values)
        elif name != "reason":
            columns[name] = torch.tensor(values, dtype=torch.bool if name == "ambiguous" else torch.float64)
    return Alignment(**columns)
