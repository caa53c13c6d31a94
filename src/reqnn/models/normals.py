"""Normals of surfaces: a network weighs the neighbours of each point, and the normal is that of the plane they fit."""

from __future__ import annotations

import torch
import torch.nn as nn

from .grouping import index_points, knn_point
from .layers import check_points, scaled
from .registry import register


class PlaneFit(nn.Module):
    """The unit normal of the plane that fits weighted neighbours best: least squares, the axis of the smallest variance.

    A normal has no sign of its own; here it points away from the origin of the coordinates.

    Shapes: neighbours (B, N, k, 3) relative to their point, weights (B, N, k) ≥ 0, points (B, N, 3) → (B, N, 3).
    """

    def forward(self, neighbours: torch.Tensor, weights: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """The last axis of the weighted principal component analysis."""
        shares = (weights / weights.sum(-1, keepdim=True)).unsqueeze(-1)
        centred = neighbours - (shares * neighbours).sum(2, keepdim=True)
        covariance = (shares * centred).transpose(2, 3) @ centred
        normal = torch.linalg.eigh(covariance)[1][..., 0]
        outward = (normal * points).sum(-1, keepdim=True) >= 0
        return torch.where(outward, normal, -normal)


@register("plane_fit", to_real="head", coordinates=("fit",), outputs=("vectors",))
class WeightedPlaneFit(nn.Module):
    """Normals of points (after Lenssen et al., CVPR 2020): edge convolutions weigh k neighbours, which a plane is fitted to.

    | layer | channels |
    |---|---|
    | edge1 on offsets p_j − p_i, max over k | 3→64 |
    | edge2 on [p_j − p_i, f_j − f_i, f_i], max over k | 131→64 |
    | edge3 on the same, each neighbour kept | 131→64 |
    | head, a weight between 0 and 1 per neighbour | 64→64→1 |
    | fit, the plane through the weighted neighbours | |

    With equal weights these are PCA normals. Revised, the weights do not change with the orientation, and the normals rotate.

    Shapes: points (B, N, 3) → unit normals (B, N, 3), pointing away from the origin.
    """

    def __init__(self, width: float = 1.0, k: int = 24) -> None:
        super().__init__()
        self.k = self.min_points = k
        c = scaled(64, width)
        self.edge1, self.edge2, self.edge3 = layer(3, c), layer(3 + 2 * c, c), layer(3 + 2 * c, c)
        self.head = nn.Sequential(layer(c, c), nn.Conv2d(c, 1, 1), nn.Sigmoid())
        self.fit = PlaneFit()

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.k, f"a plane is fitted to the k = {self.k} nearest points of each", option="k")
        index = knn_point(self.k, points, points)
        offsets = index_points(points, index) - points.unsqueeze(2)
        x = self.edge1(offsets.permute(0, 3, 1, 2)).max(-1)[0]
        x = self.edge2(edges(offsets, x, index)).max(-1)[0]
        weights = self.head(self.edge3(edges(offsets, x, index)))
        return self.fit(offsets, weights.squeeze(1) + 1e-3, points)


def layer(in_channels: int, out: int) -> nn.Sequential:
    """Conv → BN → LeakyReLU on edges. Shapes: (B, in, N, k) → (B, out, N, k)."""
    return nn.Sequential(nn.Conv2d(in_channels, out, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU(0.2))


def edges(offsets: torch.Tensor, features: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[p_j − p_i, f_j − f_i, f_i]. Shapes: offsets (B, N, k, 3), features (B, C, N), index (B, N, k) → (B, 3 + 2C, N, k)."""
    rows = features.transpose(1, 2)
    neighbours = index_points(rows, index)
    centres = rows.unsqueeze(2).expand_as(neighbours)
    return torch.cat([offsets, neighbours - centres, centres], dim=3).permute(0, 3, 1, 2)
