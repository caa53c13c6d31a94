"""Evaluation of normals on rotated objects: the angle to the true ones, beside PCA normals; a picture of the errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import rotate_by
from reqnn.models.grouping import index_points, knn_point
from reqnn.models.normals import PlaneFit
from reqnn.train.batches import normals_of
from reqnn.train.cloud_pictures import camera, draw_coloured
from reqnn.train.evaluation import rotated_copies
from reqnn.train.prediction import predict
from reqnn.train.task import line_angles

NEIGHBOURS = 24  # of PCA normals, for a network without k


@dataclass(frozen=True)
class NormalsEvaluation:
    """The results on a test set under one rotation protocol: angles in degrees, 0 to 90, over all points and rotations."""

    protocol: str
    copies: int  # rotations per shape
    seed: int
    shapes: int
    median: float
    mean: float
    within_10: float  # the share of points with an angle below 10°
    change: float  # the median angle between f(R x) and R f(x)
    neighbours: int  # of the PCA normals
    pca_median: float
    pca_mean: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def pca_normals(points: Tensor, k: int) -> Tensor:
    """The normal of the plane through the k nearest points of each, itself included: (B, N, 3) -> (B, N, 3)."""
    offsets = index_points(points, knn_point(k, points, points)) - points.unsqueeze(2)
    return PlaneFit()(offsets, points.new_ones(offsets.shape[:3]), points)


def evaluate_normals(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32
) -> NormalsEvaluation:
    """Test a network on clouds rotated by a protocol: each `copies` times, seeded; NR once."""
    wanted, rotated, k = normals_of(clouds), rotated_copies(clouds, protocol, copies, seed), neighbours(model)
    angles, changes, plain = [], [], []
    for index in torch.arange(len(clouds)).split(batch):
        points, normals = clouds.points[index], wanted[index]
        plain.append(line_angles(pca_normals(points.double(), k), normals))
        upright = predict(model, points, batch)
        for copy in range(rotated.copies):
            matrices = rotated.matrices[index, copy]
            found = upright if protocol == "NR" else predict(model, rotate_by(points, matrices), batch)
            angles.append(line_angles(found, rotate_by(normals, matrices)))
            changes.append(line_angles(found, rotate_by(upright, matrices)))
    angle, pca = torch.cat([one.flatten() for one in angles]), torch.cat(plain)
    return NormalsEvaluation(
        protocol=protocol,
        copies=rotated.copies,
        seed=seed,
        shapes=len(clouds),
        median=angle.median().item(),
        mean=angle.mean().item(),
        within_10=(angle < 10).double().mean().item(),
        change=torch.cat([one.flatten() for one in changes]).median().item(),
        neighbours=k,
        pca_median=pca.median().item(),
        pca_mean=pca.mean().item(),
    )


def neighbours(model: nn.Module) -> int:
    """How many neighbours a network fits a plane to."""
    found = (getattr(module, "k", None) for module in model.modules())
    return next((k for k in found if isinstance(k, int)), NEIGHBOURS)


def normals_table(found: dict[str, list[NormalsEvaluation]]) -> Table:
    """One row per network and protocol."""
    table = Table("network", "rotations", "shapes", "median angle", "mean", "within 10°", "change", "PCA: median", "mean")
    for name, results in found.items():
        for one in results:
            rotations = one.protocol if one.copies == 1 else f"{one.protocol} × {one.copies}"
            angles = [f"{value:.2f}°" for value in (one.median, one.mean, one.pca_median, one.pca_mean)]
            change = "" if one.copies == 1 else f"{one.change:.1g}°"
            table.add_row(name, rotations, str(one.shapes), *angles[:2], f"{one.within_10:.1%}", change, *angles[2:])
    return table


def draw_normals(models: dict[str, nn.Module], clouds: PointClouds, path: Path, seed: int = 0, shapes: int = 6) -> Path:
    """Objects coloured by the angle to the true normal, 0 (blue) to 60 degrees (yellow): PCA, each network, also rotated."""
    some = clouds.subset(range(min(shapes, len(clouds))))
    wanted, matrices = normals_of(some), rotated_copies(some, "AR", 1, seed).matrices[:, 0]
    k = neighbours(next(iter(models.values())))
    rows = [(f"PCA, k = {k}", some.points, line_angles(pca_normals(some.points.double(), k), wanted))]
    for name, model in models.items():
        for state, points, normals in (
            ("", some.points, wanted),
            (", rotated", rotate_by(some.points, matrices), rotate_by(wanted, matrices)),
        ):
            rows.append((name.replace(" of ", " of\n") + state, points, line_angles(predict(model, points), normals)))
    titles = [some.classes[label] for label in some.labels.tolist()]
    return draw_coloured(rows, titles, path, camera(some.up), "viridis", 60)
