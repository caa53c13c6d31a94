"""Edge convolutions on a hierarchy of farthest points: DGCNN's layer on the skeleton of RIConv++ (Zhang et al., IJCV 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn as nn

from reqnn.errors import InputError
from reqnn.models.grouping import farthest_point_sample, index_points, knn_point
from reqnn.models.layers import ClassificationHead, check_points, scaled


class EdgeAbstraction(nn.Sequential):
    """max_j ReLU(BN(W·[x_j − x_i, f_j − f_i, f_i])) over the `nsample` points j nearest to each centre i.

    The points come in the order of farthest point sampling, so that the first S of them are the centres. The first level has
    no features: its edges are [x_j − x_i, x_i], and its centres are passed.

    Shapes: xyz (B, N, 3), features (B, N, C) or None, centres (B, S, 3) → (B, S, O).
    """

    def __init__(self, in_channels: int, out_channels: int, nsample: int) -> None:
        convolution = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(out_channels), nn.ReLU())
        self.nsample = nsample

    def forward(self, xyz: torch.Tensor, features: torch.Tensor | None, centres: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Features (B, S, O) of the centres."""
        idx = knn_point(self.nsample, xyz, centres)
        around = centres.unsqueeze(2)
        edges = [index_points(xyz, idx) - around]
        if features is None:
            edges.append(around.expand_as(edges[0]))
        else:
            neighbours = index_points(features, idx)
            own = features[:, : centres.shape[1]].unsqueeze(2).expand_as(neighbours)
            edges += [neighbours - own, own]
        x = super().forward(torch.cat(edges, dim=3).permute(0, 3, 1, 2))
        return x.max(dim=-1)[0].transpose(1, 2)


class HierarchicalEdgeConv(nn.Module):
    """Four edge convolutions, each on half as many points as the one before, then a layer on the last points and their maximum.

    | layer | npoint / nsample | channels |
    |---|---|---|
    | levels.0 on edges [x_j − x_i, x_i], max | 512 / 8 | 6→32 |
    | levels.1–3 on edges [x_j − x_i, f_j − f_i, f_i], max | 256 / 16, 128 / 32, 64 / 64 | 67→64, 131→128, 259→256 |
    | conv on [x_i, f_i], max over points | | 259→512 |
    | head | | 512→512→256→classes |

    Neighbours are the nearest in space among all points of the level above, so that nothing is searched in feature space. One
    farthest point sampling serves all levels: the first n of its points are the sample of n points.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: Sequence[int] = (512, 256, 128, 64),
        nsample: Sequence[int] = (8, 16, 32, 64),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.npoint = tuple(npoint)
        self.min_points = max(self.npoint[0], nsample[0]) if self.npoint else 1
        _check_levels(self.npoint, tuple(nsample))
        widths = [scaled(32 * 2**level, width) for level in range(len(self.npoint) + 1)]
        inputs = [2 * 3, *(3 + 2 * channels for channels in widths)]
        self.levels = nn.ModuleList([EdgeAbstraction(*layer) for layer in zip(inputs, widths[:-1], nsample, strict=False)])
        self.conv = nn.Sequential(nn.Conv1d(3 + widths[-2], widths[-1], 1, bias=False), nn.BatchNorm1d(widths[-1]), nn.ReLU())
        self.head = ClassificationHead(widths[-1], num_classes, width, dropout)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Logits (B, num_classes) of clouds (B, N, 3)."""
        check_points(points, self.min_points, f"HierarchicalEdgeConv samples npoint = {self.npoint[0]} points")
        xyz = index_points(points, farthest_point_sample(points, self.npoint[0]))
        features = self.levels[0](points, None, xyz)
        for level, npoint in zip(self.levels[1:], self.npoint[1:], strict=True):
            centres = xyz[:, :npoint]
            xyz, features = centres, level(xyz, features, centres)
        x = self.conv(torch.cat([xyz, features], dim=2).transpose(1, 2))
        return self.head(x.max(dim=-1)[0])


def _check_levels(npoint: tuple[int, ...], nsample: tuple[int, ...]) -> None:
    """Raise `InputError` unless each level has its neighbours, and the level above has at least as many points."""
    if not npoint or len(npoint) != len(nsample):
        raise InputError(f"npoint={npoint} and nsample={nsample}: give one number of points and of neighbours per level")
    falling = all(below <= above for above, below in pairwise(npoint))
    if not falling or min(npoint + nsample) < 1 or any(k > above for k, above in zip(nsample[1:], npoint, strict=False)):
        raise InputError(
            f"npoint={npoint} and nsample={nsample}: points must not increase from level to level, and a centre has "
            "at most as many neighbours as the level above has points"
        )
