"""Networks that weigh neighbours, in small.

RandLA-Net (Hu et al. 2020), Point Transformer (Zhao et al. 2021), RS-CNN (Liu et al. 2019), CurveNet (Xiang et al. 2021).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.networks.grouping import gather, knn


class LocalSpatialEncoding(nn.Module):
    """RandLA-Net: distances beside coordinates, then attentive pooling; sampled by the shape of the cloud."""

    def __init__(self, classes: int = 5, k: int = 6, width: int = 8) -> None:
        super().__init__()
        self.k = k
        self.encode, self.norm = nn.Conv2d(10, width, 1), nn.BatchNorm2d(width)
        self.score, self.mix = nn.Linear(width, width, bias=False), nn.Linear(width, 12)
        self.head = nn.Linear(12, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Logits."""
        near = gather(xyz, knn(xyz, self.k))
        tile = xyz.unsqueeze(2).expand_as(near)
        relative = tile - near
        distance = relative.pow(2).sum(-1, keepdim=True).sqrt()
        x = torch.cat((distance, relative, tile, near), dim=-1).permute(0, 3, 1, 2)
        x = F.leaky_relu(self.norm(self.encode(x)), 0.2).permute(0, 2, 3, 1)
        x = (F.softmax(self.score(x), dim=-2) * x).sum(-2)
        return self.head(self.mix(x).amax(1))


class PointTransformer(nn.Module):
    """Vector attention: softmax of an MLP of differences and of encoded positions."""

    def __init__(self, classes: int = 5, k: int = 6, width: int = 8) -> None:
        super().__init__()
        self.k = k
        self.first = nn.Linear(3, width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.position = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.last, self.norm, self.head = nn.Linear(width, width), nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Logits."""
        index = knn(xyz, self.k)
        x = self.first(xyz)
        position = self.position(xyz[:, :, None] - gather(xyz, index))
        attention = self.weigh(self.query(x)[:, :, None] - gather(self.key(x), index) + position)
        attention = F.softmax(attention / 8**0.5, dim=-2)
        x = torch.einsum("bmnf,bmnf->bmf", attention, gather(self.value(x), index) + position) + x
        return self.head(torch.relu(self.norm(self.last(x).transpose(1, 2))).mean(2))


class RelationShape(nn.Module):
    """RS-CNN: weights from ten numbers of each pair, distance among them, times the features of neighbours."""

    def __init__(self, classes: int = 5, k: int = 6, width: int = 8) -> None:
        super().__init__()
        self.k = k
        self.lift = nn.Conv2d(3, width, 1)
        self.relation = nn.Sequential(nn.Conv2d(10, width, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 1))
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Logits."""
        near = gather(xyz, knn(xyz, self.k)).permute(0, 3, 1, 2)
        centre = xyz.permute(0, 2, 1).unsqueeze(-1).expand_as(near)
        distance = torch.norm(near - centre, dim=1, keepdim=True)
        relation = torch.cat((distance, centre, near, centre - near), 1)
        x = (self.relation(relation) * self.lift(near)).max(-1)[0]
        return self.head(F.relu(self.norm(x)).max(-1)[0])


class CurveGate(nn.Module):
    """CurveNet: a sigmoid gate from pooled features, and a tanh."""

    def __init__(self, classes: int = 5, k: int = 6, width: int = 8) -> None:
        super().__init__()
        self.k = k
        self.conv, self.norm = nn.Conv2d(6, width, 1), nn.BatchNorm2d(width)
        self.gate, self.shift = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)
        self.head = nn.Linear(width, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Logits."""
        near = gather(xyz, knn(xyz, self.k))
        x = torch.cat([near - xyz.unsqueeze(2), xyz.unsqueeze(2).expand_as(near)], -1).permute(0, 3, 1, 2)
        x = F.leaky_relu(self.norm(self.conv(x)), 0.2).max(-1)[0]
        x = x * torch.sigmoid(self.gate(x)) + x * torch.tanh(self.shift(x))
        return self.head(x.max(-1)[0])
