"""PointConv, single-scale with density (Wu et al., CVPR 2019)."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

from .grouping import compute_density, farthest_point_sample, index_points, knn_point
from .layers import ClassificationHead, SampledClassifier, SharedMLP, WeightedMLP, check_points, scaled
from .registry import register


class DensityNet(SharedMLP):
    """Scale of each point from its density, 1→8→8→1. Shapes: (B, N) → (B, 1, N)."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__((1, 8, 8, 1), nn.Conv1d, nn.BatchNorm1d, bias)

    def forward(self, density: torch.Tensor) -> torch.Tensor:
        return self.layers(density.unsqueeze(1))


class WeightNet(SharedMLP):
    """Convolution weights from coordinate differences, 3→8→8→16. Shapes: (B, 3, K, S) → (B, 16, K, S)."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__((3, 8, 8, 16), bias=bias)

    def forward(self, differences: torch.Tensor) -> torch.Tensor:
        return self.layers(differences)


class PointConvSetAbstraction(nn.Module):
    """PointConv on the k nearest neighbours of sampled points (`npoint=None`: on all points around their mean).

    out_i = ReLU BN Linear( Σ_j mlp(f_ij) ⊗ WeightNet(s_j · (x_j − x_i)) ), with s_j = DensityNet(density_j), the outer
    product flattened to 16·C, and f_ij = [x_j − x_i, x_j if `absolute_xyz`, features of j].

    Shapes: xyz (B, N, 3), points (B, N, D) or None → new_xyz (B, S, 3), new_points (B, S, D').
    """

    def __init__(
        self,
        npoint: int | None,
        nsample: int | None,
        bandwidth: float,
        in_channel: int,
        mlp: list[int],
        absolute_xyz: bool = False,
        weight_bias: bool = True,
    ) -> None:
        super().__init__()
        self.npoint, self.nsample, self.bandwidth = npoint, nsample, bandwidth
        self.mlp = WeightedMLP(in_channel, mlp, absolute_xyz)
        self.densitynet = DensityNet(weight_bias)
        self.weightnet = WeightNet(weight_bias)
        self.linear = nn.Linear(16 * mlp[-1], mlp[-1])
        self.bn_linear = nn.BatchNorm1d(mlp[-1])

    def forward(self, xyz: torch.Tensor, points: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        density_scale = self.densitynet(compute_density(xyz, self.bandwidth)).transpose(1, 2)  # (B, N, 1)
        if self.npoint is None or self.nsample is None:
            idx, new_xyz = None, xyz.mean(dim=1, keepdim=True)
            grouped_xyz, grouped_scale = xyz.unsqueeze(1), density_scale.unsqueeze(1)
        else:
            new_xyz = index_points(xyz, farthest_point_sample(xyz, self.npoint))
            idx = knn_point(self.nsample, xyz, new_xyz)
            grouped_xyz, grouped_scale = index_points(xyz, idx), index_points(density_scale, idx)
        scaled_xyz = (grouped_xyz - new_xyz.unsqueeze(2)) * grouped_scale
        weights = self.weightnet(scaled_xyz.permute(0, 3, 2, 1))  # (B, 16, K, S)
        new_points = self.mlp(xyz, points, new_xyz, idx, weights)  # (B, S, C, 16)
        new_points = self.linear(new_points.flatten(2))
        new_points = F.relu(self.bn_linear(new_points.permute(0, 2, 1)))
        return new_xyz, new_points.permute(0, 2, 1)


@register(
    "pointconv",
    to_real="head.fc1",
    coordinates=("sa1.weightnet", "sa2.weightnet", "sa3.weightnet"),
    equivariant_options={"absolute_xyz": True, "weight_bias": False},
)
class PointConv(SampledClassifier):
    """PointConv for classification.

    | stage | npoint / k / bandwidth | in | widths |
    |---|---|---|---|
    | SA1 | 512 / 32 / 0.1 | 3 (+ 3 with `absolute_xyz`) | 64, 64, 128 |
    | SA2 | 128 / 64 / 0.2 | 3 + 128 | 128, 128, 256 |
    | SA3 | all, around the mean / 0.4 | 3 + 256 | 256, 512, 1024 |

    The published REQNN revises the model with `absolute_xyz=True, weight_bias=False` (no biases in DensityNet and
    WeightNet). `dead_parameters=True` adds the 1,053,440 parameters of the published REQNN that no output depends on.

    `sample` and `votes`: see `SampledClassifier`.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: tuple[int, int] = (512, 128),
        nsample: tuple[int, int] = (32, 64),
        bandwidth: tuple[float, float, float] = (0.1, 0.2, 0.4),
        dropout: float = 0.4,
        absolute_xyz: bool = False,
        weight_bias: bool = True,
        dead_parameters: bool = False,
        sample: int | None = None,
        votes: int = 1,
    ) -> None:
        least = max(*npoint, nsample[0])
        super().__init__(sample, votes, least, f"{least}, the largest of npoint and nsample[0]")
        self.npoint, self.nsample = npoint, nsample
        mlp1, mlp2, mlp3 = ([scaled(c, width) for c in mlp] for mlp in ((64, 64, 128), (128, 128, 256), (256, 512, 1024)))
        in1 = 6 if absolute_xyz else 3
        self.sa1 = PointConvSetAbstraction(npoint[0], nsample[0], bandwidth[0], in1, mlp1, absolute_xyz, weight_bias)
        self.sa2 = PointConvSetAbstraction(npoint[1], nsample[1], bandwidth[1], 3 + mlp1[-1], mlp2, False, weight_bias)
        self.sa3 = PointConvSetAbstraction(None, None, bandwidth[2], 3 + mlp2[-1], mlp3, False, weight_bias)
        self.head = ClassificationHead(mlp3[-1], num_classes, width, dropout)
        if dead_parameters:
            c1, c2, c3 = mlp1[-1], mlp2[-1], mlp3[-1]
            self.dead_conv = nn.Conv1d(c3, c3, 1, bias=False)
            self.dead_bns = nn.ModuleList([nn.BatchNorm1d(c) for c in (c3, c1, c2, c3)])

    def classify(self, points: torch.Tensor, cloud: torch.Tensor) -> torch.Tensor:
        check_points(points, max(self.npoint), f"PointConv samples npoint = {max(self.npoint)} points")
        check_points(points, self.nsample[0], f"SA1 takes the nsample = {self.nsample[0]} nearest points", "nsample")
        xyz, features = self.sa1(points, None)
        check_points(xyz, self.nsample[1], f"SA2 takes the nsample = {self.nsample[1]} nearest points", "nsample")
        xyz, features = self.sa2(xyz, features)
        _, features = self.sa3(xyz, features)
        return self.head(features.squeeze(1))
