"""RS-CNN, the relation-shape convolutional network, single-scale (Liu et al., CVPR 2019)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn as nn
import torch.nn.functional as F

from ..errors import check_choice
from .grouping import farthest_point_sample, index_points, query_ball_point
from .layers import ClassificationHead, check_points, scaled
from .registry import register

Relation = Literal["paper", "published", "distance"]
RELATIONS = {"paper": 10, "published": 10, "distance": 1}
"""What the weights are computed from → its channels."""


class RelationShapeConv(nn.Module):
    """y_i = ReLU BN W_c max_j ReLU BN(w_ij ⊙ f_j) over a ball around each sampled centre i, with weights by geometry alone:

    w_ij = W₂ ReLU BN(W₁ h_ij), h_ij = (‖Δ‖, x_i, x_j, Δ), Δ = x_j − x_i (Liu et al., equations 2 and 3). The features f_j are
    those of j behind Δ, or behind ReLU BN(W_x Δ) with `lifted` channels.

    Shapes: xyz (B, N, 3), features (B, N, C) or None → centres (B, S, 3), features (B, S, O).
    """

    def __init__(
        self, npoint: int, radius: float, nsample: int, widths: tuple[int, int, int], relation: Relation, lifted: int = 0
    ) -> None:
        super().__init__()
        self.npoint, self.radius, self.nsample, self.relation = npoint, radius, nsample, relation
        in_channels, hidden, out_channels = widths
        self.lift = nn.Sequential(nn.Conv2d(3, lifted, 1), nn.BatchNorm2d(lifted), nn.ReLU()) if lifted else None
        channels = (lifted or 3) + in_channels
        self.mapping = nn.Sequential(
            nn.Conv2d(RELATIONS[relation], hidden, 1), nn.BatchNorm2d(hidden), nn.ReLU(), nn.Conv2d(hidden, channels, 1)
        )
        self.bn = nn.BatchNorm2d(channels)
        self.raising = nn.Sequential(nn.Conv1d(channels, out_channels, 1), nn.BatchNorm1d(out_channels), nn.ReLU())

    def forward(self, xyz: torch.Tensor, features: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        sampled = farthest_point_sample(xyz, self.npoint)
        centres = index_points(xyz, sampled)
        ball = query_ball_point(self.radius, self.nsample, xyz, centres)
        idx = torch.cat([sampled.unsqueeze(2), ball], dim=2)  # the centre itself comes first
        near = index_points(xyz, idx).permute(0, 3, 2, 1)  # (B, 3, K, S)
        around = centres.transpose(1, 2).unsqueeze(2).expand_as(near)
        offset = near - around
        x = offset if self.lift is None else self.lift(offset)
        if features is not None:
            x = torch.cat([x, index_points(features, idx).permute(0, 3, 2, 1)], dim=1)
        x = self.mapping(self.relate(around, near, offset)) * x
        return centres, self.raising(F.relu(self.bn(x)).max(dim=2)[0]).transpose(1, 2)

    def relate(self, centre: torch.Tensor, near: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        """h_ij (B, 10 or 1, K, S) of x_i, x_j and Δ, each (B, 3, K, S)."""
        distance = torch.linalg.vector_norm(offset, dim=1, keepdim=True)
        if self.relation == "distance":
            return distance
        if self.relation == "published":  # in the authors' code both copies of the coordinates are shifted by the centre
            return torch.cat([distance, centre - centre, offset, offset], dim=1)
        return torch.cat([distance, centre, near, offset], dim=1)


@register(
    "rscnn",
    to_real="head.fc1",
    recipes={"full": {"to_real": "conv"}},
    coordinates=("conv1.mapping", "conv2.mapping"),
    equivariant_options={"lift_offset": True},
)
class RSCNN(nn.Module):
    """Two relation-shape convolutions, then a layer on the last centres and their maximum.

    | layer | npoint / radius / nsample | weights w | channels |
    |---|---|---|---|
    | conv1 on Δ, lifted 3→16 | 512 / 0.23 / 48 | 10→64→16 | 16→128 |
    | conv2 on [Δ, features] | 128 / 0.32 / 64 | 10→128→131 | 131→512 |
    | conv on [x_i, features], max over centres | | | 515→1024 |
    | head | | | 1024→512→256→classes |

    `relation`: "paper" feeds h = (‖Δ‖, x_i, x_j, Δ) to the weights; "published" what the authors' code feeds, (‖Δ‖, 0, Δ, Δ);
    "distance" ‖Δ‖ alone. The authors pad balls with the centre, we with the first point found, which has no effect on maxima.
    `lift_offset=True` lifts Δ in conv2 as in conv1. Its REQNN needs that: there a coordinate is no channel to be weighted.
    `dead_parameters=True` adds the 32 parameters of the authors' code that no output depends on.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: tuple[int, int] = (512, 128),
        radius: tuple[float, float] = (0.23, 0.32),
        nsample: tuple[int, int] = (48, 64),
        relation: Relation = "paper",
        lift_offset: bool = False,
        dropout: float = 0.5,
        dead_parameters: bool = False,
    ) -> None:
        super().__init__()
        check_choice(relation, RELATIONS, "relation")
        self.min_points = max(npoint)
        c0, c1, c2, c3, h1, h2 = (scaled(c, width) for c in (16, 128, 512, 1024, 64, 128))
        self.conv1 = RelationShapeConv(npoint[0], radius[0], nsample[0], (0, h1, c1), relation, c0)
        self.conv2 = RelationShapeConv(npoint[1], radius[1], nsample[1], (c1, h2, c2), relation, c0 if lift_offset else 0)
        self.conv = nn.Sequential(nn.Conv1d(3 + c2, c3, 1), nn.BatchNorm1d(c3), nn.ReLU())
        self.head = ClassificationHead(c3, num_classes, width, dropout, first_bias=False, second_bias=False)
        if dead_parameters:
            self.dead_bn = nn.BatchNorm2d(c0)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.min_points, f"RS-CNN samples npoint = {self.min_points} points")
        xyz, features = self.conv1(points, None)
        xyz, features = self.conv2(xyz, features)
        x = self.conv(torch.cat([xyz, features], dim=2).transpose(1, 2))
        return self.head(x.max(dim=-1)[0])
