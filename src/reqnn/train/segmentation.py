"""Evaluation of part segmentation on rotated objects: mean IoU, and the points whose answer changes; a picture of the parts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds, part_classes
from reqnn.data.rotation import rotate_by
from reqnn.errors import InputError
from reqnn.train.cloud_pictures import camera, draw_coloured
from reqnn.train.evaluation import rotated_copies
from reqnn.train.prediction import predict
from reqnn.train.task import Segmentation


@dataclass(frozen=True)
class SegmentationEvaluation:
    """The results on a test set under one rotation protocol; answers are limited to the parts of the object's category."""

    protocol: str
    copies: int  # rotations per shape
    seed: int
    shapes: int
    instance_miou: float  # the mean IoU of a shape over its parts, averaged over shapes and rotations
    class_miou: float  # the same averaged over the shapes of each category, then over categories
    per_class: dict[str, float | None]  # None if the test set has none of that category
    accuracy: float  # the share of points with the right part
    inconsistent: float  # the share of points whose answer changes with the rotation
    logit_change: float  # the largest change of a logit of one point between two rotations

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate_segmentation(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32
) -> SegmentationEvaluation:
    """Test a network on clouds rotated by a protocol: each `copies` times, seeded; NR once."""
    if clouds.parts is None:
        raise InputError(f"{clouds.name} has no parts to compare with; choose a data set that has, such as shapenet-part")
    rotated = rotated_copies(clouds, protocol, copies, seed)
    task, copies = task_of(clouds), rotated.copies
    means, right, changed, largest = [], 0, 0, 0.0
    for index in torch.arange(len(clouds)).split(batch):
        labels, parts = clouds.labels[index], clouds.parts[index]
        found = []
        low = high = torch.empty(0)
        for copy in range(copies):
            points = clouds.points[index]
            points = points if protocol == "NR" else rotate_by(points, rotated.matrices[index, copy])
            logits = segment(model, points, labels, task)
            found.append(task.answers(logits, labels))
            low, high = (torch.minimum(low, logits), torch.maximum(high, logits)) if copy else (logits, logits)
        each = [task.miou(answers, parts, labels) for answers in found]
        means.append(torch.stack(each).mean(0))
        right += sum(int((answers == parts).sum()) for answers in found)
        changed += int((torch.stack(found) != found[0]).any(0).sum())
        largest = max(largest, (high - low).max().item())
    miou = torch.cat(means)
    each_class = {name: miou[clouds.labels == i] for i, name in enumerate(clouds.classes)}
    per_class = {name: values.mean().item() if len(values) else None for name, values in each_class.items()}
    present = [value for value in per_class.values() if value is not None]
    return SegmentationEvaluation(
        protocol=protocol,
        copies=copies,
        seed=seed,
        shapes=len(clouds),
        instance_miou=miou.mean().item(),
        class_miou=sum(present) / len(present),
        per_class=per_class,
        accuracy=right / (copies * clouds.parts.numel()),
        inconsistent=changed / clouds.parts.numel(),
        logit_change=largest,
    )


def task_of(clouds: PointClouds) -> Segmentation:
    """The task on these clouds."""
    return Segmentation(part_classes=tuple(part_classes(clouds.part_names, clouds.classes)))


def segment(model: nn.Module, points: Tensor, labels: Tensor, task: Segmentation, batch: int = 32) -> Tensor:
    """Logits (B, N, parts) of clouds (B, N, 3) of known categories (B,)."""
    cloud, category = task.inputs(points, labels[:, None])
    logits = predict(model, cloud, batch, category)
    task.check(logits, points)
    return logits


def draw_parts(models: dict[str, nn.Module], clouds: PointClouds, path: Path, seed: int = 0, shapes: int = 6) -> Path:
    """Objects of several categories, their points coloured by part: the truth, then each network, upright and rotated."""
    if clouds.parts is None:
        raise InputError(f"{clouds.name} has no parts to draw")
    labels = clouds.labels.tolist()
    chosen = [labels.index(label) for label in sorted(set(labels))][:shapes]
    some = clouds.subset(chosen)
    task, upright = task_of(some), some.points
    rotated = rotate_by(upright, rotated_copies(some, "AR", 1, seed).matrices[:, 0])
    rows = [("truth", upright, clouds.parts[chosen])]
    for name, model in models.items():
        for state, points in (("", upright), (", rotated", rotated)):
            answers = task.answers(segment(model, points, some.labels, task), some.labels)
            rows.append((name.replace(" of ", " of\n") + state, points, answers))
    first = torch.tensor([task.part_classes.index(int(label)) for label in some.labels])[:, None]
    coloured = [(name, points, parts - first) for name, points, parts in rows]
    return draw_coloured(coloured, [some.classes[label] for label in some.labels.tolist()], path, camera(some.up), "Set1", 8)
