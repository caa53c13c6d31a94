"""Training tasks: the loss, and the metric that selects the best weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reqnn.data.dataset import PointClouds, part_classes
from reqnn.errors import InputError
from reqnn.train.config import TrainConfig
from reqnn.train.distance import chamfer_distance


@dataclass(frozen=True)
class Task:
    """A task: its loss, and the metric that selects the best weights."""

    name: ClassVar[str]  # as in the settings
    metric: ClassVar[str]  # its name in the log, after `train_` and `validation_`
    higher: ClassVar[bool]  # whether higher values are better: then it is a share

    def inputs(self, points: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """The inputs of the network for a batch."""
        return (points,)

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of a batch, a scalar."""
        raise NotImplementedError

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The metric of each cloud, (B,)."""
        raise NotImplementedError

    def better(self, value: float, best: float) -> bool:
        """Whether a value of the metric is better than the best so far."""
        if math.isnan(best):
            return not math.isnan(value)
        return value > best if self.higher else value < best

    def show(self, value: float) -> str:
        """The metric as text."""
        return f"{100 * value:.1f} %" if self.higher else f"{value:.5f}"

    def show_loss(self, value: float) -> str:
        """The loss as text."""
        return f"{value:.3f}" if self.higher else f"{value:.5f}"


@dataclass(frozen=True)
class Classification(Task):
    """Logits (B, classes): cross entropy and accuracy."""

    name, metric, higher = "classification", "accuracy", True
    smoothing: float = 0.0

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy with 1 − ε on the right class and ε/(n − 1) on each other one, as the paper's networks are trained.

        torch's own smoothing puts ε'/n on every class, the right one included; ε' = ε·n/(n − 1) makes the two the same.
        """
        if outputs.dim() != 2:
            found = f"the network returns {tuple(outputs.shape)}; classification needs logits (B, classes)"
            raise InputError(f"{found}. Train a network that returns clouds with --task reconstruction")
        n = outputs.shape[1]
        return F.cross_entropy(outputs, labels, label_smoothing=min(1.0, self.smoothing * n / max(n - 1, 1)))

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """1 if correct, else 0."""
        return outputs.argmax(1) == labels


def imitation_loss(outputs: Tensor, teacher: nn.Module, points: Tensor) -> Tensor:
    """Cross entropy with the teacher's probabilities for the same clouds (Hinton et al., 2015, at temperature 1)."""
    with torch.no_grad():
        answers = teacher(points).softmax(1)
    return F.cross_entropy(outputs, answers)


@dataclass(frozen=True)
class Segmentation(Task):
    """Logits (B, N, parts) of points: cross entropy and mean IoU. Labels are (B, 1 + N): the category, and a part per point."""

    name, metric, higher = "segmentation", "miou", True
    smoothing: float = 0.0
    part_classes: tuple[int, ...] = ()  # the category of each part

    def inputs(self, points: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """The clouds, and their categories one-hot, (B, categories)."""
        return points, F.one_hot(labels[:, 0], max(self.part_classes) + 1).to(points.dtype)

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy over all parts, also those of other categories; smoothed as `Classification`."""
        self.check(outputs, points)
        return Classification(smoothing=self.smoothing).loss(outputs.flatten(0, 1), points, labels[:, 1:].flatten())

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean IoU of each cloud over the parts of its category."""
        return self.miou(self.answers(outputs, labels[:, 0]), labels[:, 1:], labels[:, 0])

    def check(self, outputs: Tensor, points: Tensor) -> None:
        """Raise `InputError` unless the outputs are logits of points."""
        if outputs.shape != (*points.shape[:2], len(self.part_classes)):
            raise InputError(
                f"the network returns {tuple(outputs.shape)} for clouds {tuple(points.shape)}; segmentation needs logits "
                f"(B, N, {len(self.part_classes)}), as from --model dgcnn_parts or pointnet2_parts"
            )

    def answers(self, outputs: Tensor, categories: Tensor) -> Tensor:
        """The part of each point among those of the category: (B, N, parts), (B,) -> (B, N)."""
        return outputs.masked_fill(~self._own(categories)[:, None], -torch.inf).argmax(-1)

    def miou(self, answers: Tensor, parts: Tensor, categories: Tensor) -> Tensor:
        """The mean IoU of each cloud: (B, N), (B, N), (B,) -> (B,)."""
        return mean_iou(answers, parts, self._own(categories))

    def _own(self, categories: Tensor) -> Tensor:
        """Whether a part belongs to a category: (B,) -> (B, parts)."""
        return torch.tensor(self.part_classes, device=categories.device) == categories[:, None]


def mean_iou(answers: Tensor, parts: Tensor, own: Tensor) -> Tensor:
    """The mean over parts of |A ∩ P| / |A ∪ P|, A the points with that answer, P those of that part; 1 if both are empty.

    Shapes: answers, parts (B, N), own (B, parts) bool, the parts to average over -> (B,) float64.
    """
    kinds = own.shape[1]
    first = kinds * torch.arange(len(parts), device=parts.device)[:, None]

    def count(found: Tensor) -> Tensor:
        return torch.bincount(found.flatten(), minlength=own.numel()).view_as(own)

    both = count((parts + first)[answers == parts])
    union = count(answers + first) + count(parts + first) - both
    each = torch.where(union > 0, both / union.clamp(min=1).double(), 1.0)
    return (each * own).sum(1) / own.sum(1)


@dataclass(frozen=True)
class Normals(Task):
    """Vectors (B, N, 3) along the normals of points, of either sign: sin² of the angle. Labels are the normals, (B, N, 3)."""

    name, metric, higher = "normals", "angle", False

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean of sin² = 1 − ⟨output, normal⟩² / ‖output‖²."""
        if outputs.shape != labels.shape:
            found = f"the network returns {tuple(outputs.shape)} for clouds {tuple(points.shape)}"
            raise InputError(f"{found}; normals are vectors (B, N, 3), as from --model plane_fit")
        return (1 - (outputs * labels).sum(-1).square() / outputs.square().sum(-1).clamp(min=1e-12)).mean()

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The median angle of each cloud, in degrees."""
        return line_angles(outputs, labels).median(1).values

    def show(self, value: float) -> str:
        """In degrees."""
        return f"{value:.2f}°"


def line_angles(a: Tensor, b: Tensor) -> Tensor:
    """The angle between the lines along two vectors, 0 to 90 degrees: (..., 3), (..., 3) -> (...)."""
    a, b = a.double(), b.double()
    return torch.rad2deg(torch.atan2(torch.linalg.cross(a, b).norm(dim=-1), (a * b).sum(-1).abs()))


@dataclass(frozen=True)
class Reconstruction(Task):
    """Clouds (B, M, 3) that should equal the input as sets: Chamfer distance."""

    name, metric, higher = "reconstruction", "chamfer", False

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean Chamfer distance."""
        return self.scores(outputs, points, labels).mean()

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The Chamfer distance of each cloud."""
        check_outputs(outputs)
        return chamfer_distance(outputs, points)


@dataclass(frozen=True)
class PointwiseReconstruction(Task):
    """Clouds (B, N, 3) whose point i should equal point i of the input: mean squared error and mean distance."""

    name, metric, higher = "reconstruction", "distance", False

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """Mean ‖output_i − point_i‖²."""
        check_outputs(outputs, points)
        return (outputs - points).square().sum(-1).mean()

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean distance of corresponding points."""
        check_outputs(outputs, points)
        return (outputs - points).norm(dim=-1).mean(1)


def check_outputs(outputs: Tensor, points: Tensor | None = None) -> None:
    """Raise `InputError` unless the outputs are clouds, of the shape of `points` if given."""
    found = f"the network returns {tuple(outputs.shape)}"
    if outputs.dim() != 3 or outputs.shape[-1] != 3:
        raise InputError(f"{found}; reconstruction needs clouds (B, N, 3), as from --model pointnet_reconstruction")
    if points is not None and outputs.shape != points.shape:
        raise InputError(f"{found} for clouds {tuple(points.shape)}: use --loss chamfer for points that do not correspond")


def make_task(config: TrainConfig, clouds: PointClouds | None = None) -> Task:
    """The task of the settings; segmentation needs the clouds, for their parts."""
    if config.task == "segmentation" and clouds is not None:
        return Segmentation(config.smoothing, tuple(part_classes(clouds.part_names, clouds.classes)))
    if config.task == "normals":
        return Normals()
    if config.task == "classification":
        return Classification(smoothing=config.smoothing)
    pointwise = config.model == "pointnet_reconstruction" if config.loss == "auto" else config.loss == "mse"
    return PointwiseReconstruction() if pointwise else Reconstruction()
