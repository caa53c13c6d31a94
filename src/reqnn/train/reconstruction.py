"""Evaluation of reconstruction: Chamfer distance, exact EMD, and equivariance error."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import data
from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import rotate_by
from reqnn.errors import InputError
from reqnn.train.distance import chamfer_distance, earth_movers_distance
from reqnn.train.prediction import predict
from reqnn.train.task import check_outputs


@dataclass(frozen=True)
class ReconstructionEvaluation:
    """The results on a test set under one rotation protocol, in the units of the clouds.

    Attributes:
        protocol, copies, seed: of the rotations; `copies` per shape.
        shapes: the number of test shapes.
        chamfer: the mean Chamfer distance between the rotated cloud and its reconstruction.
        per_class: its mean by class name; None if the test set has none of that class.
        chamfer_change: the largest change of a shape's Chamfer distance between two orientations, upright included.
        deviation: the largest ‖f(R x) − R f(x)‖ of a point; 0 for an equivariant network.
        mean_deviation: the mean of these distances.
        emd: the mean exact earth mover's distance of the first `emd_shapes` shapes, each rotated once; None if not asked for.
    """

    protocol: str
    copies: int
    seed: int
    shapes: int
    chamfer: float
    per_class: dict[str, float | None]
    chamfer_change: float
    deviation: float
    mean_deviation: float
    emd: float | None = None
    emd_shapes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate_reconstruction(
    model: nn.Module,
    clouds: PointClouds,
    protocol: str = "AR",
    copies: int = 10,
    seed: int = 0,
    batch: int = 32,
    emd: int = 0,
) -> ReconstructionEvaluation:
    """Test a network on clouds rotated by a protocol; `emd` is the number of shapes for the exact EMD.

    A copy of the network runs in float64, so that differences between orientations are not rounding.
    """
    if not len(clouds):
        raise InputError(f"{clouds.name} {clouds.split}: there are no clouds to test on")
    copies = 1 if protocol == "NR" else copies
    rotated = data.rotated_test_set(clouds, clouds.up if protocol == "vertical" else protocol, copies, seed)
    net = in_double(model)
    matrices = rotated.matrices[:, : 0 if protocol == "NR" else copies]
    found = [
        _one_batch(net, clouds.points[index].double(), matrices[index], batch)
        for index in torch.arange(len(clouds)).split(batch)
    ]
    chamfer = torch.cat([part[0] for part in found])  # (S, 1 + copies), upright first
    offsets = torch.cat([part[1] for part in found])
    means = chamfer[:, -copies:].mean(1)
    each = {name: means[clouds.labels == i] for i, name in enumerate(clouds.classes)}
    some = min(emd, len(clouds))
    return ReconstructionEvaluation(
        protocol=protocol,
        copies=copies,
        seed=seed,
        shapes=len(clouds),
        chamfer=means.mean().item(),
        per_class={name: values.mean().item() if len(values) else None for name, values in each.items()},
        chamfer_change=(chamfer.amax(1) - chamfer.amin(1)).max().item(),
        deviation=offsets.max().item() if offsets.numel() else 0.0,
        mean_deviation=offsets.mean().item() if offsets.numel() else 0.0,
        emd=_emd(net, clouds.points[:some].double(), rotated.matrices[:some, 0], batch) if some else None,
        emd_shapes=some,
    )


def in_double(model: nn.Module) -> nn.Module:
    """A copy of a network in eval mode and, if its device supports it, in float64."""
    net = copy.deepcopy(model).eval()
    return net if next(net.parameters()).device.type == "mps" else net.double()


def _one_batch(net: nn.Module, points: Tensor, matrices: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    """Chamfer distances (b, 1 + copies), upright first, and distances f(R x) − R f(x), (b, copies·N)."""
    upright = predict(net, points, batch)
    check_outputs(upright)
    chamfer, offsets = [chamfer_distance(upright.double(), points)], [points.new_zeros(len(points), 0)]
    for rotations in matrices.unbind(1):
        given = rotate_by(points, rotations)
        made = predict(net, given, batch).double()
        chamfer.append(chamfer_distance(made, given))
        offsets.append((made - rotate_by(upright.double(), rotations)).norm(dim=-1))
    return torch.stack(chamfer, 1), torch.cat(offsets, 1)


def _emd(net: nn.Module, points: Tensor, rotations: Tensor, batch: int) -> float:
    given = rotate_by(points, rotations)
    return earth_movers_distance(predict(net, given, batch), given).mean().item()
