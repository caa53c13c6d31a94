"""Evaluation of reconstruction: Chamfer distance, exact EMD and equivariance error, of one network or of several."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import random_rotations, rotate_by
from reqnn.revision.report import count_parameters
from reqnn.train.cloud_pictures import BLUE, GREY, RED, camera, draw_grid
from reqnn.train.distance import chamfer_distance, earth_movers_distance
from reqnn.train.evaluation import rotated_copies
from reqnn.train.prediction import predict
from reqnn.train.run import Run
from reqnn.train.task import check_outputs


@dataclass(frozen=True)
class ReconstructionEvaluation:
    """The results on a test set under one rotation protocol, in the units of the clouds."""

    protocol: str
    copies: int  # rotations per shape
    seed: int
    shapes: int
    chamfer: float  # mean distance between the rotated cloud and its reconstruction
    per_class: dict[str, float | None]  # None if the test set has none of that class
    chamfer_change: float  # the largest change for a shape between two orientations, upright included
    deviation: float  # the largest ‖f(R x) − R f(x)‖ of a point; 0 for an equivariant network
    mean_deviation: float
    emd: float | None = None  # mean exact earth mover's distance of the first `emd_shapes` shapes, each rotated once
    emd_shapes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate_reconstruction(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32, emd: int = 0
) -> ReconstructionEvaluation:
    """Test a network on clouds rotated by a protocol; `emd` is the number of shapes for the exact EMD.

    A copy of the network runs in float64, so that differences between orientations are not rounding.
    """
    rotated = rotated_copies(clouds, protocol, copies, seed)
    net, copies = in_double(model), rotated.copies
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
        emd=_emd(net, rotate_by(clouds.points[:some].double(), rotated.matrices[:some, 0]), batch) if some else None,
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


def _emd(net: nn.Module, given: Tensor, batch: int) -> float:
    return earth_movers_distance(predict(net, given, batch), given).mean().item()


@dataclass(frozen=True)
class Comparison:
    """The results of one network, one per protocol."""

    name: str
    run: Run
    results: list[ReconstructionEvaluation]

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return count_parameters(self.run.model)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run": self.name,
            "config": self.run.config.without_folders(),
            "parameters": self.parameters,
            "training": self.run.metrics,
            "results": [result.to_dict() for result in self.results],
        }


def compare(
    loaded: dict[str, tuple[Run, PointClouds]], protocols: Sequence[str] = ("NR", "AR"), **settings: int
) -> list[Comparison]:
    """Test each run on its clouds under each protocol, all with the same rotations; `settings` as `evaluate_reconstruction`."""
    return [
        Comparison(name, run, [evaluate_reconstruction(run.model, clouds, p, **settings) for p in protocols])
        for name, (run, clouds) in loaded.items()
    ]


def draw_comparison(loaded: dict[str, tuple[Run, PointClouds]], path: Path, seed: int = 0) -> Path:
    """Draw the first test objects of six classes, upright and rotated, and their reconstructions."""
    clouds = next(iter(loaded.values()))[1]
    labels = clouds.labels.tolist()
    chosen = [labels.index(label) for label in sorted(set(labels))][:6]
    points = clouds.points[chosen].double()
    rotated = rotate_by(points, random_rotations(len(points), "AR", torch.Generator().manual_seed(seed)))
    rows, names, colours = [], [], []
    for state, given in (("", points), (", rotated", rotated)):
        rows.append(list(given))
        names.append(f"input{state}")
        colours.append(GREY)
        for name, (run, _) in loaded.items():
            rows.append(list(predict(run.model, given)))
            names.append(name.replace(" of ", " of\n"))
            colours.append(BLUE if run.config.equivariant else RED)
    titles = [clouds.classes[labels[index]] for index in chosen]
    return draw_grid(rows, path, titles=titles, names=names, colours=colours, view=camera(clouds.up))
