"""KD-Network: features climb a kd-tree (Klokov and Lempitsky, ICCV 2017)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F

from ..errors import InputError
from .grouping import farthest_point_sample, index_points
from .layers import check_points, scaled
from .registry import register

WIDTHS = (32, 32, 64, 64, 128, 128, 256, 256, 512, 512, 1024, 1024, 2048, 2048)
"""Of the levels below the root, from the leaves up."""


class KdTree(nn.Module):
    """A balanced kd-tree: each node halves its points at the median along the axis of largest extent.

    In training the axis is drawn with probabilities softmax(γ·r), r the extents divided by their sum; γ = 10 in the paper.

    Shapes: points (B, 2^D, 3) → order of the leaves (B, 2^D), axes of the nodes of each level, from the root, D times (B, 2^s).
    """

    def __init__(self, gamma: float = 10.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, points: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Order of the points, and the axis at which each node is split."""
        batch, count, _ = points.shape
        points, order = points.unsqueeze(1), torch.arange(count, device=points.device).expand(batch, 1, count)
        axes = []
        while points.shape[2] > 1:
            extent = points.amax(2) - points.amin(2)  # (B, nodes, 3)
            score = self.gamma * extent / extent.sum(-1, keepdim=True).clamp_min(1e-12)
            if self.training:  # the largest of scores with Gumbel noise is a draw from their softmax
                score = score - torch.empty_like(score).exponential_().log()
            axis = score.argmax(-1)
            # gather, not take_along_dim, which fixes the batch size in torch.export
            rank = points.gather(3, axis[:, :, None, None].expand(-1, -1, points.shape[2], 1)).squeeze(3).argsort(2)
            points = points.gather(2, rank.unsqueeze(3).expand_as(points)).unflatten(2, (2, -1)).flatten(1, 2)
            order = order.gather(2, rank).unflatten(2, (2, -1)).flatten(1, 2)
            axes.append(axis)
        return order.squeeze(2), axes


class KdLevel(nn.Module):
    """v = ReLU BN(W_left,axis v_left + W_right,axis v_right + b), the weights those of the node's split axis (equation 1).

    Shapes: children (B, 2n, C), axis (B, n) → (B, n, O).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(in_channels, 3 * out_channels), nn.Linear(in_channels, 3 * out_channels)
        self.bn = nn.BatchNorm1d(out_channels)

    def forward(self, children: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
        x = self.left(children[:, 0::2]) + self.right(children[:, 1::2])
        chosen = F.one_hot(axis, 3).to(x.dtype).unsqueeze(3)
        x = (x.unflatten(2, (3, -1)) * chosen).sum(2)
        return F.relu(self.bn(x.transpose(1, 2))).transpose(1, 2)


@register("kd_network", to_real="head", coordinates=("tree",))
class KDNetwork(nn.Module):
    """A shared layer on 2^depth points, one level of the tree after the other up to the root, and a linear classifier.

    | level | nodes | widths |
    |---|---|---|
    | points | 1024 | 3→16 |
    | levels.0–8 | 512, 256, …, 2 | 16→32→32→64→64→128→128→256→256→512 |
    | levels.9, the root | 1 | 512→128 |
    | head | | 128→classes |

    The tree is drawn at random in training; in eval mode it is the one of largest extents, where the authors average over 16
    random ones. A cloud of more than 2^depth points is represented by as many of them, each the farthest from those before.
    Revised, the tree is built in the PCA frame, and features are quaternions.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(self, num_classes: int = 40, width: float = 1.0, depth: int = 10, gamma: float = 10.0) -> None:
        super().__init__()
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= len(WIDTHS) + 1:
            raise InputError(f"depth={depth!r}; a tree of 2^depth points has 1 to {len(WIDTHS) + 1} levels")
        self.min_points = 2**depth
        widths = [scaled(c, width) for c in (16, *WIDTHS[: depth - 1], 128)]
        self.tree = KdTree(gamma)
        self.leaf, self.leaf_bn = nn.Conv1d(3, widths[0], 1), nn.BatchNorm1d(widths[0])
        self.levels = nn.ModuleList([KdLevel(*pair) for pair in pairwise(widths)])
        self.head = nn.Linear(widths[-1], num_classes)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.min_points, f"the tree has 2^depth = {self.min_points} points", "depth")
        if points.shape[1] > self.min_points:
            points = index_points(points, farthest_point_sample(points, self.min_points))
        order, axes = self.tree(points)
        x = F.relu(self.leaf_bn(self.leaf(index_points(points, order).transpose(1, 2)))).transpose(1, 2)
        for level, axis in zip(self.levels, reversed(axes), strict=True):
            x = level(x, axis)
        return self.head(x.squeeze(1))
