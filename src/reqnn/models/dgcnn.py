"""DGCNN, the dynamic graph CNN (Wang et al., TOG 2019)."""

from __future__ import annotations

import torch
import torch.nn as nn

from reqnn.errors import InputError

from .grouping import get_graph_feature
from .layers import ClassificationHead, SampledClassifier, check_points, scaled
from .registry import register


class EdgeConv(nn.Sequential):
    """max_j LeakyReLU(BN(W·[f_j − f_i, f_i])) over the k nearest neighbours in feature space, or in a `cloud`.

    Each of `more` batch-norms adds a layer before the maximum. Bias-free 1×1 convolutions, the first of 2C channels.

    Shapes: x (B, C, N), cloud (B, C, M) → (B, O, N). Wang et al., section 3.1.
    """

    def __init__(self, in_channels: int, norm: nn.BatchNorm2d, k: int, *more: nn.BatchNorm2d) -> None:
        layers: list[nn.Module] = []
        channels = 2 * in_channels
        for one in (norm, *more):
            layers += [nn.Conv2d(channels, one.num_features, 1, bias=False), one, nn.LeakyReLU(0.2)]
            channels = one.num_features
        super().__init__(*layers)
        self.k = k

    def forward(self, x: torch.Tensor, cloud: torch.Tensor | None = None) -> torch.Tensor:
        """Edge features, the layer on them, the maximum over neighbours."""
        return super().forward(get_graph_feature(x, self.k, cloud)).max(dim=-1)[0]


@register("dgcnn", to_real="conv6", recipes={"full": {"to_real": "conv5"}})
class DGCNN(SampledClassifier):
    """Four edge convolutions on graphs that are rebuilt in feature space, then max ⊕ mean over the points.

    | layer | channels |
    |---|---|
    | conv1–4 on edges [f_j − f_i, f_i], max over k | 6→64, 128→64, 128→128, 256→256 |
    | conv5 on the concatenation of the four | 512→1024 |
    | conv6, the extra convolution (footnote 2 of REQNN) | 1024→1024 |
    | max ⊕ mean over points, head | 2048→512→256→classes |

    Convolutions are bias-free, each followed by BN and LeakyReLU(0.2). `extra_conv=False` is the network of its own
    authors (1,809,576 parameters): conv6 is then the identity, so that Quaternion2Real has one place in both.

    `sample` and `votes`: see `SampledClassifier`. With `stem` = s, the first edge convolution is over the s nearest of *all*
    points of the cloud around each sampled point, so that no point is left out; the others stay on the sampled points.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        k: int = 20,
        extra_conv: bool = True,
        dropout: float = 0.5,
        sample: int | None = None,
        votes: int = 1,
        stem: int | None = None,
    ) -> None:
        super().__init__(sample, votes, k, f"k={k}, the neighbours of each")
        if stem is not None and sample is None:
            raise InputError(f"stem={stem!r}: set sample=, the points around which those of the stem lie")
        if stem is not None and (type(stem) is not int or stem < 1):
            raise InputError(f"stem={stem!r}: give a whole number, at least 1")
        self.k, self.stem = k, stem
        self.min_points = max(self.min_points, stem or 1)
        c1, c2, c3, c4, emb = (scaled(c, width) for c in (64, 64, 128, 256, 1024))
        # As in the authors' code, a batch-norm has two names: its own, and its place in the convolution's block.
        self.bn1, self.bn2 = nn.BatchNorm2d(c1), nn.BatchNorm2d(c2)
        self.bn3, self.bn4 = nn.BatchNorm2d(c3), nn.BatchNorm2d(c4)
        self.bn5 = nn.BatchNorm1d(emb)
        self.conv1, self.conv2 = EdgeConv(3, self.bn1, stem or k), EdgeConv(c1, self.bn2, k)
        self.conv3, self.conv4 = EdgeConv(c2, self.bn3, k), EdgeConv(c3, self.bn4, k)
        self.conv5 = nn.Sequential(nn.Conv1d(c1 + c2 + c3 + c4, emb, 1, bias=False), self.bn5, nn.LeakyReLU(0.2))
        self.conv6: nn.Module = nn.Identity()
        if extra_conv:
            self.bn6 = nn.BatchNorm1d(emb)
            self.conv6 = nn.Sequential(nn.Conv1d(emb, emb, 1, bias=False), self.bn6, nn.LeakyReLU(0.2))
        self.head = ClassificationHead(2 * emb, num_classes, width, dropout, negative_slope=0.2, first_bias=False)

    def classify(self, points: torch.Tensor, cloud: torch.Tensor) -> torch.Tensor:
        check_points(points, self.k, f"DGCNN connects each point to its k = {self.k} nearest", option="k")
        if self.stem is not None:
            check_points(cloud, self.stem, f"DGCNN reads the stem = {self.stem} nearest points of the cloud", option="stem")
        x1 = self.conv1(points.transpose(2, 1), None if self.stem is None else cloud.transpose(2, 1))
        x2 = self.conv2(x1)
        x3 = self.conv3(x2)
        x4 = self.conv4(x3)
        x = self.conv5(torch.cat([x1, x2, x3, x4], dim=1))
        x = self.conv6(x)
        return self.head(torch.cat([x.max(dim=-1)[0], x.mean(dim=-1)], dim=1))
