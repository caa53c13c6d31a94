"""DGCNN, the dynamic graph CNN (Wang et al., TOG 2019)."""

from __future__ import annotations

import torch
import torch.nn as nn

from .arguments import check_points, scaled
from .grouping import get_graph_feature
from .head import ClassificationHead
from .registry import register


@register("dgcnn", to_real="conv6")
class DGCNN(nn.Module):
    """Four edge convolutions on graphs that are rebuilt in feature space, then max ⊕ mean over the points.

    | layer | channels |
    |---|---|
    | conv1–4 on edges [f_j − f_i, f_i], max over k | 6→64, 128→64, 128→128, 256→256 |
    | conv5 on the concatenation of the four | 512→1024 |
    | conv6, the extra convolution (footnote 2 of REQNN) | 1024→1024 |
    | max ⊕ mean over points, head | 2048→512→256→classes |

    Convolutions are bias-free, each followed by BN and LeakyReLU(0.2). `extra_conv=False` is the network of its own
    authors (1,809,576 parameters): conv6 is then the identity, so that Quaternion2Real has one place in both.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        k: int = 20,
        extra_conv: bool = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.k = self.min_points = k
        c1, c2, c3, c4, emb = (scaled(c, width) for c in (64, 64, 128, 256, 1024))
        # As in the authors' code, a batch-norm has two names: its own, and its place in the convolution's block.
        self.bn1, self.bn2 = nn.BatchNorm2d(c1), nn.BatchNorm2d(c2)
        self.bn3, self.bn4 = nn.BatchNorm2d(c3), nn.BatchNorm2d(c4)
        self.bn5 = nn.BatchNorm1d(emb)
        self.conv1 = nn.Sequential(nn.Conv2d(2 * 3, c1, 1, bias=False), self.bn1, nn.LeakyReLU(0.2))
        self.conv2 = nn.Sequential(nn.Conv2d(2 * c1, c2, 1, bias=False), self.bn2, nn.LeakyReLU(0.2))
        self.conv3 = nn.Sequential(nn.Conv2d(2 * c2, c3, 1, bias=False), self.bn3, nn.LeakyReLU(0.2))
        self.conv4 = nn.Sequential(nn.Conv2d(2 * c3, c4, 1, bias=False), self.bn4, nn.LeakyReLU(0.2))
        self.conv5 = nn.Sequential(nn.Conv1d(c1 + c2 + c3 + c4, emb, 1, bias=False), self.bn5, nn.LeakyReLU(0.2))
        self.conv6: nn.Module = nn.Identity()
        if extra_conv:
            self.bn6 = nn.BatchNorm1d(emb)
            self.conv6 = nn.Sequential(nn.Conv1d(emb, emb, 1, bias=False), self.bn6, nn.LeakyReLU(0.2))
        self.head = ClassificationHead(2 * emb, num_classes, width, dropout, negative_slope=0.2, first_bias=False)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Logits (B, num_classes) of clouds (B, N, 3)."""
        check_points(points, self.k, f"DGCNN connects each point to its k = {self.k} nearest", option="k")
        x = points.transpose(2, 1)
        x1 = self.conv1(get_graph_feature(x, self.k)).max(dim=-1)[0]
        x2 = self.conv2(get_graph_feature(x1, self.k)).max(dim=-1)[0]
        x3 = self.conv3(get_graph_feature(x2, self.k)).max(dim=-1)[0]
        x4 = self.conv4(get_graph_feature(x3, self.k)).max(dim=-1)[0]
        x = self.conv5(torch.cat([x1, x2, x3, x4], dim=1))
        x = self.conv6(x)
        return self.head(torch.cat([x.max(dim=-1)[0], x.mean(dim=-1)], dim=1))
