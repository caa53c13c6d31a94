"""Networks with an output per point: part segmentation by DGCNN, PointNet++ and PointNet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn as nn

from .dgcnn import EdgeConv
from .grouping import interpolate_features
from .layers import SharedMLP, check_points, scaled
from .pointnet import TransformNet
from .pointnet2 import PointNet2
from .registry import register


def block(in_channel: int, out: int, slope: float = 0.0, dropout: float = 0.0, bias: bool = True) -> nn.Sequential:
    """Conv → BN → (Leaky)ReLU → Dropout on points. Shapes: (B, in, N) → (B, out, N)."""
    convolution = nn.Conv1d(in_channel, out, 1, bias=bias)
    return nn.Sequential(convolution, nn.BatchNorm1d(out), nn.LeakyReLU(slope), nn.Dropout(dropout))


class PartHead(nn.Module):
    """Logits of each point from its features and the one-hot category of the object.

    `layers` are (width, dropout) of the hidden ones. Shapes: (B, C, N), category (B, K) or None → (B, N, num_classes).
    """

    def __init__(
        self, channels: int, layers: Sequence[tuple[int, float]], num_classes: int, slope: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        before = [channels, *(width for width, _ in layers)]
        self.layers = nn.ModuleList(
            [block(last, width, slope, drop, bias) for last, (width, drop) in zip(before, layers, strict=False)]
        )
        self.last = nn.Conv1d(before[-1], num_classes, 1, bias=bias)

    def forward(self, features: torch.Tensor, category: torch.Tensor | None) -> torch.Tensor:
        """The category joins the features of each point; then layer by layer."""
        x = features if category is None else torch.cat([features, at_each_point(category, features)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.last(x).transpose(1, 2)


def at_each_point(x: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Features of a cloud at each of its points. Shapes: (B, C), features (B, D, N) → (B, C, N)."""
    return x.unsqueeze(-1).expand(-1, -1, features.shape[-1])


class GlobalPartHead(PartHead):
    """The part head of DGCNN: conv6 and the maximum over points give a global feature, conv7 embeds the category."""

    def __init__(self, channels: int, width: float, categories: int, num_classes: int, dropout: float) -> None:
        wide, embedded = scaled(1024, width), scaled(64, width) if categories else 0
        layers = [(scaled(256, width), dropout), (scaled(256, width), dropout), (scaled(128, width), 0.0)]
        super().__init__(channels + wide + embedded, layers, num_classes, 0.2, bias=False)
        self.conv6 = block(channels, wide, 0.2, bias=False)
        self.conv7 = block(categories, embedded, 0.2, bias=False) if categories else None

    def forward(self, features: torch.Tensor, category: torch.Tensor | None) -> torch.Tensor:
        """Features of the point, of the cloud and of the category."""
        whole = self.conv6(features).max(dim=-1)[0]
        if self.conv7 is not None and category is not None:
            category = self.conv7(category.unsqueeze(-1)).squeeze(-1)
        return super().forward(torch.cat([features, at_each_point(whole, features)], dim=1), category)


@register("dgcnn_parts", to_real="head")
class DGCNNParts(nn.Module):
    """DGCNN for part segmentation (Wang et al., TOG 2019, section 4.4), without its spatial transformer.

    | layer | channels |
    |---|---|
    | conv1–2, conv3–4, conv5 on edges [f_j − f_i, f_i], max over k | 6→64→64, 128→64→64, 128→64 |
    | conv6 on the concatenation of the three, max over points | 192→1024 |
    | conv7 on the one-hot category | 16→64 |
    | head on [192, 1024, 64] | 1280→256→256→128→parts |

    Shapes: points (B, N, 3), category (B, categories) → logits (B, N, num_classes); categories = 0: no such input.
    """

    def __init__(
        self, num_classes: int = 50, categories: int = 0, width: float = 1.0, k: int = 40, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.categories, self.k, self.min_points = categories, k, k
        c = scaled(64, width)
        self.edge1 = EdgeConv(3, nn.BatchNorm2d(c), k, nn.BatchNorm2d(c))
        self.edge2 = EdgeConv(c, nn.BatchNorm2d(c), k, nn.BatchNorm2d(c))
        self.edge3 = EdgeConv(c, nn.BatchNorm2d(c), k)
        self.head = GlobalPartHead(3 * c, width, categories, num_classes, dropout)

    def forward(self, points: torch.Tensor, category: torch.Tensor | None = None) -> torch.Tensor:
        check_points(points, self.k, f"DGCNN connects each point to its k = {self.k} nearest", option="k")
        x1 = self.edge1(points.transpose(2, 1))
        x2 = self.edge2(x1)
        x3 = self.edge3(x2)
        return self.head(torch.cat([x1, x2, x3], dim=1), category)


class FeaturePropagation(SharedMLP):
    """Features of centres at the points they were sampled from, joined with the features that these have (section 3.4).

    Shapes: xyz (B, N, 3), centres (B, S, 3), own (B, N, D), features (B, S, C) → (B, N, D').
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__(widths, nn.Conv1d, nn.BatchNorm1d)

    def forward(self, xyz: torch.Tensor, centres: torch.Tensor, own: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Interpolate, join, and the layers."""
        joined = torch.cat([own, interpolate_features(xyz, centres, features)], dim=-1)
        return self.layers(joined.transpose(1, 2)).transpose(1, 2)


@register("pointnet2_parts", to_real="head")
class PointNet2Parts(PointNet2):
    """PointNet++ for part segmentation: the three set abstractions of `pointnet2`, then three feature propagations.

    | stage | in | widths |
    |---|---|---|
    | FP3: the global feature to the centres of SA2 | 256 + 1024 | 256, 256 |
    | FP2: to the centres of SA1 | 128 + 256 | 256, 128 |
    | FP1: to all points, with their coordinates | 3 + 128 | 128 |
    | head: the other two layers of FP1, a hidden one and the last | 128 + 16 | 128, 128, 128, parts |

    The category joins after the first layer of FP1, and not before it: there, a revised network has become real.

    Shapes: points (B, N, 3), category (B, categories) → logits (B, N, num_classes); categories = 0: no such input.
    """

    def __init__(
        self,
        num_classes: int = 50,
        categories: int = 0,
        width: float = 1.0,
        npoint: tuple[int, int] = (512, 128),
        radius: tuple[float, float] = (0.2, 0.4),
        nsample: tuple[int, int] = (32, 64),
        dropout: float = 0.5,
    ) -> None:
        super().__init__(num_classes, width, npoint, radius, nsample, dropout)
        self.categories = categories
        c1, c2, c3 = scaled(128, width), scaled(256, width), scaled(1024, width)
        self.fp3, self.fp2 = FeaturePropagation([c2 + c3, c2, c2]), FeaturePropagation([c1 + c2, c2, c1])
        self.fp1 = FeaturePropagation([3 + c1, c1])
        self.head = PartHead(c1 + categories, [(c1, 0.0)] * 2 + [(c1, dropout)], num_classes)

    def forward(self, points: torch.Tensor, category: torch.Tensor | None = None) -> torch.Tensor:
        check_points(points, self.min_points, f"PointNet2Parts samples npoint = {self.min_points} points")
        xyz1, features1 = self.sa1(points, None)
        xyz2, features2 = self.sa2(xyz1, features1)
        _, whole = self.sa3(xyz2, features2)
        features2 = self.fp3(xyz2, xyz2[:, :1], features2, whole)
        features1 = self.fp2(xyz1, xyz2, features1, features2)
        return self.head(self.fp1(points, xyz1, points, features1).transpose(1, 2), category)


@register("pointnet_parts", to_real="head", remove=("stn", "fstn"))
class PointNetParts(nn.Module):
    """PointNet for part segmentation (Qi et al., CVPR 2017, supplementary material C).

    A shared MLP on each point, 3→64→128→128→512→2048, the maximum over the points, a layer on all six, 4928→256, and a head,
    256 + 16→256→128→parts. Two transformer networks multiply the input (3×3) and the third layer (128×128). The category joins
    after the layer on all six, and not before it: there, a revised network has become real.

    Shapes: points (B, N, 3), category (B, categories) → logits (B, N, num_classes); categories = 0: no such input.
    """

    min_points = 1

    def __init__(self, num_classes: int = 50, categories: int = 0, width: float = 1.0, dropout: float = 0.2) -> None:
        super().__init__()
        self.categories = categories
        widths = [3, *(scaled(c, width) for c in (64, 128, 128, 512, 2048))]
        self.stn, self.fstn = TransformNet(3, width), TransformNet(widths[3], width)
        self.convs = nn.ModuleList([block(last, c) for last, c in pairwise(widths)])
        c1, c2 = scaled(256, width), scaled(128, width)
        self.joint = block(sum(widths[1:]) + widths[-1], c1, dropout=dropout)
        self.head = PartHead(c1 + categories, [(c1, dropout), (c2, 0.0)], num_classes)

    def forward(self, points: torch.Tensor, category: torch.Tensor | None = None) -> torch.Tensor:
        check_points(points, self.min_points, "PointNet pools over points")
        x = points.transpose(2, 1)
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        found = []
        for i, conv in enumerate(self.convs):
            x = conv(x)
            found.append(x)
            if i == 2:
                trans = self.fstn(x)
                x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        whole = at_each_point(torch.max(x, 2)[0], x)
        return self.head(self.joint(torch.cat([*found, whole], dim=1)), category)
