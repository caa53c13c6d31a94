"""Shared MLPs, on points and on groups of neighbours, which PointNet++ pools and PointConv weighs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from .grouping import index_points


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
