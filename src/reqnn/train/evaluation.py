"""Evaluation on rotated objects, for each task: how good the answers are, and whether they change with the rotation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import data, quaternion
from reqnn.data.dataset import PointClouds, part_classes
from reqnn.data.rotated_test_set import RotatedTestSet
from reqnn.data.rotation import rotate_by
from reqnn.errors import InputError
from reqnn.models.grouping import index_points, knn_point
from reqnn.models.normals import PlaneFit
from reqnn.train.batches import normals_of
from reqnn.train.distance import chamfer_distance, earth_movers_distance
from reqnn.train.prediction import predict
from reqnn.train.task import Segmentation, check_outputs, line_angles

NEIGHBOURS = 24  # of PCA normals, for a network without k


@dataclass(frozen=True)
class Result:
    """What is tested: shapes of a test set under one rotation protocol."""

    protocol: str
    copies: int  # rotations per shape
    seed: int
    shapes: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Evaluation(Result):
    """The results of a classifier."""

    accuracy: float  # over all shapes and rotations
    class_accuracy: float  # the mean of the accuracies of the classes
    per_class: dict[str, float | None]  # None if the test set has none of that class
    confusion: list[list[int]]  # counts; row: true class, column: answer
    inconsistent: float  # the share of shapes whose answer changes with the rotation
    changed: list[int]  # the indices of these shapes
    logit_change: float  # the largest change of a logit of one shape between two rotations
    logit_spread: float  # the standard deviation of the logits between shapes, for comparison


def evaluate(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32
) -> Evaluation:
    """Test a classifier on clouds rotated by a protocol: each `copies` times, seeded; NR once."""
    rotated = rotated_copies(clouds, protocol, copies, seed)
    logits = torch.cat([predict(model, points, batch) for points, _, _ in rotated.batches(16 * batch)])
    if logits.shape[1] != len(clouds.classes):
        raise InputError(f"the network has {logits.shape[1]} classes; {clouds.name} has {len(clouds.classes)}")
    return measure(logits.unflatten(0, (len(clouds), rotated.copies)), clouds, protocol, seed)


def rotated_copies(clouds: PointClouds, protocol: str, copies: int, seed: int) -> RotatedTestSet:
    """The clouds rotated by a protocol; by NR there is one copy."""
    if not len(clouds):
        raise InputError(f"{clouds.name} {clouds.split}: there are no clouds to test on")
    axis = clouds.up if protocol == "vertical" else protocol
    return data.rotated_test_set(clouds, axis, 1 if protocol == "NR" else copies, seed)


def measure(logits: Tensor, clouds: PointClouds, protocol: str, seed: int = 0) -> Evaluation:
    """The results of given logits (shapes, copies, classes)."""
    shapes, copies, count = logits.shape
    answers = logits.argmax(-1)
    labels = clouds.labels.unsqueeze(1).expand(-1, copies)
    given, wanted = answers.flatten(), labels.flatten()
    confusion = torch.bincount(wanted * count + given, minlength=count * count).view(count, count)  # class, answer
    each = confusion.diagonal() / confusion.sum(1)
    present = confusion.sum(1) > 0
    changed = (answers != answers[:, :1]).any(1)
    return Evaluation(
        *(protocol, copies, seed, shapes),
        accuracy=(given == wanted).double().mean().item(),
        class_accuracy=each[present].double().mean().item(),
        per_class={name: each[i].item() if present[i] else None for i, name in enumerate(clouds.classes)},
        confusion=confusion.tolist(),
        inconsistent=changed.double().mean().item(),
        changed=changed.nonzero().flatten().tolist(),
        logit_change=(logits.amax(1) - logits.amin(1)).max().item(),
        logit_spread=logits.mean(1).std(0, correction=0).mean().item(),
    )


def accuracy_by_angle(
    model: nn.Module, clouds: PointClouds, angles: Sequence[float], seed: int = 0, batch: int = 32
) -> list[float]:
    """The accuracy on clouds rotated by each of these angles, in degrees, about a random axis per cloud."""
    axes = torch.randn(len(clouds), 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = []
    for angle in angles:
        theta = torch.full((len(clouds),), angle, dtype=torch.float64).deg2rad()
        matrices = quaternion.to_matrix(quaternion.from_axis_angle(axes, theta))
        answers = predict(model, rotate_by(clouds.points, matrices), batch).argmax(-1)
        found.append((answers == clouds.labels).double().mean().item())
    return found


@dataclass(frozen=True)
class SegmentationEvaluation(Result):
    """The results of part segmentation; answers are limited to the parts of the object's category."""

    instance_miou: float  # the mean IoU of a shape over its parts, averaged over shapes and rotations
    class_miou: float  # the same averaged over the shapes of each category, then over categories
    per_class: dict[str, float | None]  # None if the test set has none of that category
    accuracy: float  # the share of points with the right part
    inconsistent: float  # the share of points whose answer changes with the rotation
    logit_change: float  # the largest change of a logit of one point between two rotations


def evaluate_segmentation(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32
) -> SegmentationEvaluation:
    """Test a network for part segmentation as `evaluate` does."""
    if clouds.parts is None:
        raise InputError(f"{clouds.name} has no parts to compare with; choose a data set that has, such as shapenet-part")
    rotated, task = rotated_copies(clouds, protocol, copies, seed), task_of(clouds)
    means, right, changed, largest = [], 0, 0, 0.0
    for index in torch.arange(len(clouds)).split(batch):
        points, labels, parts = clouds.points[index], clouds.labels[index], clouds.parts[index]
        rotations = [rotate_by(points, matrices) for matrices in rotated.matrices[index].unbind(1)]
        logits = torch.stack([segment(model, cloud, labels, task) for cloud in rotations])  # (copies, b, N, parts)
        answers = torch.stack([task.answers(one, labels) for one in logits])
        means.append(torch.stack([task.miou(one, parts, labels) for one in answers]).mean(0))
        right += int((answers == parts).sum())
        changed += int((answers != answers[0]).any(0).sum())
        largest = max(largest, (logits.amax(0) - logits.amin(0)).max().item())
    miou = torch.cat(means)
    per_class = _by_class(miou, clouds)
    present = [value for value in per_class.values() if value is not None]
    return SegmentationEvaluation(
        *(protocol, rotated.copies, seed, len(clouds)),
        instance_miou=miou.mean().item(),
        class_miou=sum(present) / len(present),
        per_class=per_class,
        accuracy=right / (rotated.copies * clouds.parts.numel()),
        inconsistent=changed / clouds.parts.numel(),
        logit_change=largest,
    )


def task_of(clouds: PointClouds) -> Segmentation:
    """Segmentation of these clouds."""
    return Segmentation(part_classes=tuple(part_classes(clouds.part_names, clouds.classes)))


def segment(model: nn.Module, points: Tensor, labels: Tensor, task: Segmentation, batch: int = 32) -> Tensor:
    """Logits (B, N, parts) of clouds (B, N, 3) of known categories (B,)."""
    cloud, category = task.inputs(points, labels[:, None])
    logits = predict(model, cloud, batch, category)
    task.check(logits, points)
    return logits


def _by_class(values: Tensor, clouds: PointClouds) -> dict[str, float | None]:
    """The mean of a number per cloud, (S,), over the clouds of each class."""
    each = {name: values[clouds.labels == i] for i, name in enumerate(clouds.classes)}
    return {name: some.mean().item() if len(some) else None for name, some in each.items()}


@dataclass(frozen=True)
class NormalsEvaluation(Result):
    """The results of a network for normals: angles in degrees, 0 to 90, over all points and rotations."""

    median: float
    mean: float
    within_10: float  # the share of points with an angle below 10°
    change: float  # the median angle between f(R x) and R f(x)
    neighbours: int  # of the PCA normals
    pca_median: float
    pca_mean: float


def evaluate_normals(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32
) -> NormalsEvaluation:
    """Test a network for normals as `evaluate` does, beside PCA normals of as many neighbours."""
    wanted, rotated, k = normals_of(clouds), rotated_copies(clouds, protocol, copies, seed), neighbours(model)
    angles, changes, plain = [], [], []
    for index in torch.arange(len(clouds)).split(batch):
        points, normals = clouds.points[index], wanted[index]
        plain.append(line_angles(pca_normals(points.double(), k), normals))
        upright = predict(model, points, batch)
        for matrices in rotated.matrices[index].unbind(1):
            found = upright if protocol == "NR" else predict(model, rotate_by(points, matrices), batch)
            angles.append(line_angles(found, rotate_by(normals, matrices)))
            changes.append(line_angles(found, rotate_by(upright, matrices)))
    angle, pca = torch.cat([one.flatten() for one in angles]), torch.cat(plain)
    return NormalsEvaluation(
        *(protocol, rotated.copies, seed, len(clouds)),
        median=angle.median().item(),
        mean=angle.mean().item(),
        within_10=(angle < 10).double().mean().item(),
        change=torch.cat([one.flatten() for one in changes]).median().item(),
        neighbours=k,
        pca_median=pca.median().item(),
        pca_mean=pca.mean().item(),
    )


def pca_normals(points: Tensor, k: int) -> Tensor:
    """The normal of the plane through the k nearest points of each, itself included: (B, N, 3) -> (B, N, 3)."""
    offsets = index_points(points, knn_point(k, points, points)) - points.unsqueeze(2)
    return PlaneFit()(offsets, points.new_ones(offsets.shape[:3]), points)


def neighbours(model: nn.Module) -> int:
    """How many neighbours a network fits a plane to."""
    found = (getattr(module, "k", None) for module in model.modules())
    return next((k for k in found if isinstance(k, int)), NEIGHBOURS)


@dataclass(frozen=True)
class ReconstructionEvaluation(Result):
    """The results of a network that gives clouds back, in the units of the clouds."""

    chamfer: float  # mean distance between the rotated cloud and its reconstruction
    per_class: dict[str, float | None]  # None if the test set has none of that class
    chamfer_change: float  # the largest change for a shape between two orientations, upright included
    deviation: float  # the largest ‖f(R x) − R f(x)‖ of a point; 0 for an equivariant network
    mean_deviation: float
    emd: float | None = None  # mean exact earth mover's distance of the first `emd_shapes` shapes, each rotated once
    emd_shapes: int = 0


def evaluate_reconstruction(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32, emd: int = 0
) -> ReconstructionEvaluation:
    """Test a network that gives clouds back as `evaluate` does; `emd` is the number of shapes for the exact EMD.

    A copy of the network runs in float64, so that differences between orientations are not rounding.
    """
    rotated, net = rotated_copies(clouds, protocol, copies, seed), in_double(model)
    distances, offsets = [], []
    for index in torch.arange(len(clouds)).split(batch):
        points = clouds.points[index].double()
        upright = predict(net, points, batch).double()
        check_outputs(upright)
        chamfer = [chamfer_distance(upright, points)]
        for matrices in rotated.matrices[index].unbind(1) if protocol != "NR" else ():
            given = rotate_by(points, matrices)
            made = predict(net, given, batch).double()
            chamfer.append(chamfer_distance(made, given))
            offsets.append((made - rotate_by(upright, matrices)).norm(dim=-1).flatten())
        distances.append(torch.stack(chamfer, 1))
    all_distances, some = torch.cat(distances), min(emd, len(clouds))  # (S, 1 + copies), upright first
    means, deviations = all_distances[:, -rotated.copies :].mean(1), torch.cat([*offsets, torch.zeros(1)])
    given = rotate_by(clouds.points[:some].double(), rotated.matrices[:some, 0])
    return ReconstructionEvaluation(
        *(protocol, rotated.copies, seed, len(clouds)),
        chamfer=means.mean().item(),
        per_class=_by_class(means, clouds),
        chamfer_change=(all_distances.amax(1) - all_distances.amin(1)).max().item(),
        deviation=deviations.max().item(),
        mean_deviation=deviations.sum().item() / max(1, len(deviations) - 1),
        emd=earth_movers_distance(predict(net, given, batch), given).mean().item() if some else None,
        emd_shapes=some,
    )


def in_double(model: nn.Module) -> nn.Module:
    """A copy of a network in eval mode and, if its device supports it, in float64."""
    net = copy.deepcopy(model).eval()
    return net if next(net.parameters()).device.type == "mps" else net.double()
