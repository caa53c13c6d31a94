"""Rotation protocols of training and testing: NR, y, z and AR (paper, section 5)."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from reqnn import quaternion
from reqnn.errors import InputError, check_choice

Protocol = Literal["NR", "y", "z", "AR"]
"""No rotation; about the y axis; about the z axis; uniform on SO(3)."""

PROTOCOLS: tuple[str, ...] = get_args(Protocol)


def rotate(points: Tensor, protocol: str, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Rotate each cloud by its own rotation, drawn by the protocol; return the clouds and the matrices M, p -> M p.

    Drawn on the generator's device: a CPU generator gives the same rotations on every device.

    Shapes: points (B, N, 3) -> rotated (B, N, 3), matrices (B, 3, 3) of the points' dtype.
    """
    if points.ndim != 3 or points.shape[-1] != 3:
        raise InputError(f"clouds to rotate have shape (B, N, 3); given {tuple(points.shape)}")
    matrices = random_rotations(len(points), protocol, generator).to(points.dtype).to(points.device)
    return (points if protocol == "NR" else rotate_by(points, matrices)), matrices


def random_rotations(count: int, protocol: str, generator: torch.Generator | None = None) -> Tensor:
    """Rotation matrices drawn by a protocol: (count, 3, 3) float64, on the generator's device."""
    check_protocol(protocol)
    place = None if generator is None else generator.device
    if protocol == "NR":
        return torch.eye(3, dtype=torch.float64, device=place).repeat(count, 1, 1)
    if protocol == "AR":
        return quaternion.random_matrix(count, generator, torch.float64, place)
    angle = 2 * torch.pi * torch.rand(count, generator=generator, dtype=torch.float64, device=place)
    axis = torch.eye(3, dtype=torch.float64, device=place)["xyz".index(protocol)]
    return quaternion.to_matrix(quaternion.from_axis_angle(axis.expand(count, 3), angle))


def rotate_by(points: Tensor, matrices: Tensor) -> Tensor:
    """M p for each point p of each cloud: (B, N, 3), (B, 3, 3) -> (B, N, 3), in the dtype of the points.

    Products and sums in a fixed order instead of a matrix product, so that the result does not depend on the batch.
    """
    wide = points.to(torch.promote_types(points.dtype, matrices.dtype))
    x, y, z = wide.unsqueeze(-1).unbind(-2)  # (B, N, 1) each
    columns = matrices.unsqueeze(1)  # (B, 1, 3, 3)
    return (x * columns[..., 0] + y * columns[..., 1] + z * columns[..., 2]).to(points.dtype)


def check_protocol(protocol: str) -> None:
    """Raise `InputError` unless this is one of `PROTOCOLS`."""
    check_choice(protocol, PROTOCOLS, "the rotation protocol", ": none, about y, about z, arbitrary")
