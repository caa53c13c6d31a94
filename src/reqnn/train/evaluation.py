"""Evaluation on rotated objects: accuracy, confusion, consistency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import data, quaternion
from reqnn.data.dataset import PointClouds
from reqnn.data.rotated_test_set import RotatedTestSet
from reqnn.data.rotation import rotate_by
from reqnn.errors import InputError
from reqnn.train.prediction import predict


@dataclass(frozen=True)
class Evaluation:
    """The results on a test set under one rotation protocol."""

    protocol: str
    copies: int  # rotations per shape
    seed: int
    shapes: int
    accuracy: float  # over all shapes and rotations
    class_accuracy: float  # the mean of the accuracies of the classes
    per_class: dict[str, float | None]  # None if the test set has none of that class
    confusion: list[list[int]]  # counts; row: true class, column: answer
    inconsistent: float  # the share of shapes whose answer changes with the rotation
    changed: list[int]  # the indices of these shapes
    logit_change: float  # the largest change of a logit of one shape between two rotations
    logit_spread: float  # the standard deviation of the logits between shapes, for comparison

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate(
    model: nn.Module, clouds: PointClouds, protocol: str = "AR", copies: int = 10, seed: int = 0, batch: int = 32
) -> Evaluation:
    """Test a network on clouds rotated by a protocol: each `copies` times, seeded; NR once."""
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
        protocol=protocol,
        copies=copies,
        seed=seed,
        shapes=shapes,
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
    generator = torch.Generator().manual_seed(seed)
    axes = torch.randn(len(clouds), 3, generator=generator, dtype=torch.float64)
    axes = axes / axes.norm(dim=-1, keepdim=True)
    found = []
    for angle in angles:
        theta = torch.full((len(clouds),), angle, dtype=torch.float64).deg2rad()
        matrices = quaternion.to_matrix(quaternion.from_axis_angle(axes, theta))
        answers = predict(model, rotate_by(clouds.points, matrices), batch).argmax(-1)
        found.append((answers == clouds.labels).double().mean().item())
    return found
