"""PointNet++, single-scale and multi-scale (Qi et al., NeurIPS 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn as nn

from .grouping import farthest_point_sample, index_points, query_ball_point
from .layers import ClassificationHead, PooledMLP, SampledClassifier, check_points, scaled
from .registry import register


class SetAbstraction(nn.Module):
    """A shared MLP on each group of points, then the maximum over the group.

    Groups are balls around `npoint` sampled centres at one or several radii (multi-scale: one MLP per radius, outputs
    concatenated); `npoint=None` makes one group of all points with their raw coordinates. Input of the MLP, per
    neighbour j of the centre i: [x_j − x_i, x_j if `absolute_xyz`, features of j].

    Shapes: xyz (B, N, 3), points (B, N, D) or None → new_xyz (B, S, 3), new_points (B, S, D').
    """

    def __init__(
        self,
        npoint: int | None,
        radii: Sequence[float],
        nsamples: Sequence[int],
        in_channel: int,
        mlps: Sequence[Sequence[int]],
        absolute_xyz: bool = False,
    ) -> None:
        super().__init__()
        self.npoint, self.radii, self.nsamples = npoint, tuple(radii), tuple(nsamples)
        self.mlps = nn.ModuleList([PooledMLP(in_channel, list(mlp), absolute_xyz) for mlp in mlps])

    def forward(self, xyz: torch.Tensor, points: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        if self.npoint is None:
            outputs = [mlp(xyz, points, None, None) for mlp in self.mlps]
            return xyz.mean(dim=1, keepdim=True), torch.cat(outputs, dim=1).transpose(1, 2)
        new_xyz = index_points(xyz, farthest_point_sample(xyz, self.npoint))
        outputs = []
        for mlp, radius, nsample in zip(self.mlps, self.radii, self.nsamples, strict=True):
            idx = query_ball_point(radius, nsample, xyz, new_xyz)
            outputs.append(mlp(xyz, points, new_xyz, idx))
        return new_xyz, torch.cat(outputs, dim=1).transpose(1, 2)


class _ThreeStages(SampledClassifier):
    """Three set abstractions, of sampled centres and then of all, and a head."""

    sa1: SetAbstraction
    sa2: SetAbstraction
    sa3: SetAbstraction
    head: nn.Module

    def __init__(self, npoint: tuple[int, int], sample: int | None, votes: int) -> None:
        super().__init__(sample, votes, max(npoint), f"npoint={max(npoint)}")
        self.npoint = npoint

    def classify(self, points: torch.Tensor, cloud: torch.Tensor) -> torch.Tensor:
        check_points(points, max(self.npoint), f"{type(self).__name__} samples npoint = {max(self.npoint)} points")
        xyz, features = self.sa1(points, None)
        xyz, features = self.sa2(xyz, features)
        _, features = self.sa3(xyz, features)
        return self.head(features.squeeze(1))


@register("pointnet2", to_real="head.fc1")
class PointNet2(_ThreeStages):
    """PointNet++ with one scale, and coordinates added to the features of SA1 and SA2 (footnote 1 of REQNN).

    | stage | npoint / radius / nsample | in | widths |
    |---|---|---|---|
    | SA1 | 512 / 0.2 / 32 | 3 + 3 | 64, 64, 128 |
    | SA2 | 128 / 0.4 / 64 | 3 + 3 + 128 | 128, 128, 256 |
    | SA3 | all, raw xyz | 3 + 256 | 256, 512, 1024 |

    `sample` and `votes`: see `SampledClassifier`.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: tuple[int, int] = (512, 128),
        radius: tuple[float, float] = (0.2, 0.4),
        nsample: tuple[int, int] = (32, 64),
        dropout: float = 0.5,
        sample: int | None = None,
        votes: int = 1,
    ) -> None:
        super().__init__(npoint, sample, votes)
        c1, c2, c3 = scaled(128, width), scaled(256, width), scaled(1024, width)
        mlp1 = [scaled(64, width), scaled(64, width), c1]
        mlp2 = [scaled(128, width), scaled(128, width), c2]
        mlp3 = [scaled(256, width), scaled(512, width), c3]
        self.sa1 = SetAbstraction(npoint[0], radius[:1], nsample[:1], 3 + 3, [mlp1], absolute_xyz=True)
        self.sa2 = SetAbstraction(npoint[1], radius[1:], nsample[1:], 3 + 3 + c1, [mlp2], absolute_xyz=True)
        self.sa3 = SetAbstraction(None, (), (), 3 + c2, [mlp3])
        self.head = ClassificationHead(c3, num_classes, width, dropout, negative_slope=0.2)


@register("pointnet2_msg", to_real="head.fc1")
class PointNet2MSG(_ThreeStages):
    """PointNet++ with multi-scale grouping: balls of three radii around each centre.

    | stage | npoint / radii / nsamples | widths |
    |---|---|---|
    | SA1 | 512 / 0.1, 0.2, 0.4 / 16, 32, 128 | [32, 32, 64], [64, 64, 128], [64, 96, 128] |
    | SA2 | 128 / 0.2, 0.4, 0.8 / 32, 64, 128 | [64, 64, 128], [128, 128, 256], [128, 128, 256] |
    | SA3 | all, raw xyz | [256, 512, 1024] |

    `sample` and `votes`: see `SampledClassifier`.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: tuple[int, int] = (512, 128),
        radius: tuple[Sequence[float], Sequence[float]] = ((0.1, 0.2, 0.4), (0.2, 0.4, 0.8)),
        nsample: tuple[Sequence[int], Sequence[int]] = ((16, 32, 128), (32, 64, 128)),
        dropout: float = 0.5,
        sample: int | None = None,
        votes: int = 1,
    ) -> None:
        super().__init__(npoint, sample, votes)
        widths1 = [[32, 32, 64], [64, 64, 128], [64, 96, 128]]
        widths2 = [[64, 64, 128], [128, 128, 256], [128, 128, 256]]
        mlps1 = [[scaled(c, width) for c in mlp] for mlp in widths1]
        mlps2 = [[scaled(c, width) for c in mlp] for mlp in widths2]
        mlp3 = [scaled(c, width) for c in (256, 512, 1024)]
        c1, c2 = sum(mlp[-1] for mlp in mlps1), sum(mlp[-1] for mlp in mlps2)
        self.sa1 = SetAbstraction(npoint[0], radius[0], nsample[0], 3, mlps1)
        self.sa2 = SetAbstraction(npoint[1], radius[1], nsample[1], 3 + c1, mlps2)
        self.sa3 = SetAbstraction(None, (), (), 3 + c2, [mlp3])
        self.head = ClassificationHead(mlp3[-1], num_classes, width, dropout)
