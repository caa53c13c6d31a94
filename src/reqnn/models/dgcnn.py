"""DGCNN, the dynamic graph CNN (Wang et al., TOG 2019)."""

from __future__ import annotations

import torch
import torch.nn as nn

from reqnn.errors import InputError

from .grouping import get_graph_feature, voting_samples
from .layers import ClassificationHead, check_points, scaled
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

    `sample` points of the cloud, each the farthest from those before it, stand for all: the cost falls with their number,
    and they cover the shape as evenly as a dense cloud does, which as many points drawn at random do not. With `votes` = v,
    eval mode takes the mean of the logits of v such samples, one of the cloud and each other of the cloud without one of the
    first points of that (in a revised network: the outermost ones): v times the cost, for answers that depend less on which
    points were chosen. Training is the same; a cloud with no point to spare is answered by one sample.

    With `stem` = s, the first edge convolution is over the s nearest of *all* points of the cloud around each sampled point, so
    that no point is left out; the others stay on the sampled points.

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
        super().__init__()
        if sample is not None and (type(sample) is not int or sample < k):
            raise InputError(f"sample={sample!r}: give a whole number of points, at least k={k}, the neighbours of each")
        for name, value, unused in (("votes", votes, 1), ("stem", stem, None)):
            if value != unused and sample is None:
                raise InputError(f"{name}={value!r}: set sample=, the points of each vote, around which those of the stem lie")
            if value is not None and (type(value) is not int or value < 1):
                raise InputError(f"{name}={value!r}: give a whole number, at least 1")
        self.k, self.sample, self.votes, self.stem = k, sample, votes, stem
        self.min_points = max(sample or k, stem or 1)
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

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        if self.sample is None:
            check_points(points, self.k, f"DGCNN connects each point to its k = {self.k} nearest", option="k")
            return self.classify(points)
        check_points(points, self.sample, f"DGCNN takes sample = {self.sample} points of the cloud", option="sample")
        if self.stem is not None:
            check_points(points, self.stem, f"DGCNN reads the stem = {self.stem} nearest points of the cloud", option="stem")
        samples = voting_samples(points, self.sample, 1 if self.training else self.votes)
        answers = [self.classify(sample, None if self.stem is None else points) for sample in samples]
        return answers[0] if len(answers) == 1 else torch.stack(answers).mean(dim=0)

    def classify(self, points: torch.Tensor, cloud: torch.Tensor | None = None) -> torch.Tensor:
        """Logits (B, num_classes) by these points (B, N, 3), the first layer by their neighbours in a cloud (B, M, 3)."""
        x1 = self.conv1(points.transpose(2, 1), None if cloud is None else cloud.transpose(2, 1))
        x2 = self.conv2(x1)
        x3 = self.conv3(x2)
        x4 = self.conv4(x3)
        x = self.conv5(torch.cat([x1, x2, x3, x4], dim=1))
        x = self.conv6(x)
        return self.head(torch.cat([x.max(dim=-1)[0], x.mean(dim=-1)], dim=1))
