"""What models share: checks of their arguments, shared MLPs on points and on groups of neighbours, the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from ..errors import InputError
from .grouping import index_points, voting_samples


def scaled(channels: int, width: float) -> int:
    """Return a hidden width times the multiplier `width`, at least 1."""
    if not width > 0:
        raise InputError(f"width={width} was given; it multiplies every hidden width, so give a positive number")
    return max(1, round(channels * width))


def check_points(points: torch.Tensor, at_least: int, reason: str, option: str = "npoint") -> None:
    """Raise `InputError` unless `points` is (B, N, 3) with N ≥ `at_least`; reads shapes only, never values."""
    if points.dim() != 3:
        raise InputError(f"points has shape {tuple(points.shape)}; expected (B, N, 3): a batch of clouds of xyz")
    if points.shape[1] < at_least:
        raise InputError(
            f"{reason}, but a cloud of shape {tuple(points.shape)} = (B, N, 3) has only N = {points.shape[1]}. "
            f"Give at least {at_least} points, or set a smaller {option} when the model is built: "
            f"create_model(name, {option}=...)"
        )


class SampledClassifier(nn.Module):
    """A classifier with the options `sample` and `votes`; its network is `classify`.

    `sample` points of the cloud, each the farthest from those before it, stand for all: the cost falls with their number,
    and they cover the shape as evenly as a dense cloud does, which as many points drawn at random do not. With `votes` = v,
    eval mode takes the mean of the logits of v such samples, one of the cloud and each other of the cloud without one of the
    first points of that (in a revised network: the outermost ones): v times the cost, for answers that depend less on which
    points were chosen. Training is the same; a cloud with no point to spare is answered by one sample.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(self, sample: int | None, votes: int, at_least: int, limit: str) -> None:
        super().__init__()
        if sample is not None and (type(sample) is not int or sample < at_least):
            raise InputError(f"sample={sample!r}: give a whole number of points, at least {limit}")
        if type(votes) is not int or votes < 1:
            raise InputError(f"votes={votes!r}: give a whole number, at least 1")
        if votes > 1 and sample is None:
            raise InputError(f"votes={votes!r}: set sample=, the points of each vote")
        self.sample, self.votes = sample, votes
        self.min_points = sample or at_least

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        if self.sample is None:
            return self.classify(points, points)
        check_points(points, self.sample, f"{type(self).__name__} takes sample = {self.sample} points of the cloud", "sample")
        samples = voting_samples(points, self.sample, 1 if self.training else self.votes)
        answers = [self.classify(sample, points) for sample in samples]
        return answers[0] if len(answers) == 1 else torch.stack(answers).mean(dim=0)

    def classify(self, points: torch.Tensor, cloud: torch.Tensor) -> torch.Tensor:
        """Logits (B, num_classes) by these points (B, N, 3) of the cloud (B, M, 3)."""
        raise NotImplementedError


class SharedMLP(nn.Module):
    """Conv → BN → ReLU, several times. Shapes: (B, C, *) → (B, C', *)."""

    def __init__(self, widths: Sequence[int], conv: Any = nn.Conv2d, norm: Any = nn.BatchNorm2d, bias: bool = True) -> None:
        super().__init__()
        self.convs = nn.ModuleList([conv(last, out, 1, bias=bias) for last, out in pairwise(widths)])
        self.bns = nn.ModuleList([norm(out) for out in widths[1:]])

    def layers(self, x: torch.Tensor) -> torch.Tensor:
        """All layers, one after the other."""
        for conv, bn in zip(self.convs, self.bns, strict=True):
            x = F.relu(bn(conv(x)))
        return x


class GroupedMLP(SharedMLP):
    """A shared MLP on each neighbour j of each centre i; input [x_j − x_i, x_j if `absolute_xyz`, f_j].

    Shapes: xyz (B, N, 3), points (B, N, D) or None, centres (B, S, 3), idx (B, S, K) → (B, C, K, S).
    Without `centres` coordinates are taken as they are; without `idx` all points are one group.
    """

    def __init__(self, in_channel: int, mlp: list[int], absolute_xyz: bool = False) -> None:
        super().__init__([in_channel, *mlp])
        self.absolute_xyz = absolute_xyz

    def features(
        self, xyz: torch.Tensor, points: torch.Tensor | None, centres: torch.Tensor | None, idx: torch.Tensor | None
    ) -> torch.Tensor:
        """Features of every neighbour of every centre, (B, C, K, S)."""
        grouped_xyz = xyz.unsqueeze(1) if idx is None else index_points(xyz, idx)  # (B, S, K, 3)
        grouped = [grouped_xyz if centres is None else grouped_xyz - centres.unsqueeze(2)]
        if self.absolute_xyz:
            grouped.append(grouped_xyz)
        if points is not None:
            grouped.append(points.unsqueeze(1) if idx is None else index_points(points, idx))
        return self.layers(torch.cat(grouped, dim=-1).permute(0, 3, 2, 1))


class PooledMLP(GroupedMLP):
    """The maximum of the features over each group, (B, C, S) (Qi et al., PointNet++, NeurIPS 2017, section 3.2)."""

    def forward(
        self, xyz: torch.Tensor, points: torch.Tensor | None, centres: torch.Tensor | None, idx: torch.Tensor | None
    ) -> torch.Tensor:
        return torch.max(self.features(xyz, points, centres, idx), 2)[0]


class WeightedMLP(GroupedMLP):
    """Σ_j f_j ⊗ w_j over each group, (B, S, C, W) (Wu et al., PointConv, CVPR 2019, equation 5)."""

    def forward(
        self,
        xyz: torch.Tensor,
        points: torch.Tensor | None,
        centres: torch.Tensor | None,
        idx: torch.Tensor | None,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        x = self.features(xyz, points, centres, idx)
        return torch.matmul(x.permute(0, 3, 1, 2), weights.permute(0, 3, 2, 1))


class ClassificationHead(nn.Module):
    """Three fully connected layers from a global feature to logits, in → 512 → 256 → classes.

    Each hidden layer is Linear → BN → (Leaky)ReLU → Dropout; slope 0 is ReLU. Shapes: (B, in) → (B, num_classes).
    """

    def __init__(
        self,
        in_channel: int,
        num_classes: int,
        width: float = 1.0,
        dropout: float = 0.5,
        negative_slope: float = 0.0,
        first_bias: bool = True,
        second_bias: bool = True,
    ) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.fc1 = nn.Linear(in_channel, scaled(512, width), bias=first_bias)
        self.bn1 = nn.BatchNorm1d(scaled(512, width))
        self.drop1 = nn.Dropout(dropout)
        self.fc2 = nn.Linear(scaled(512, width), scaled(256, width), bias=second_bias)
        self.bn2 = nn.BatchNorm1d(scaled(256, width))
        self.drop2 = nn.Dropout(dropout)
        self.fc3 = nn.Linear(scaled(256, width), num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop1(F.leaky_relu(self.bn1(self.fc1(x)), self.negative_slope))
        x = self.drop2(F.leaky_relu(self.bn2(self.fc2(x)), self.negative_slope))
        return self.fc3(x)
