"""Kinds of network that people publish, in small: what is special about each, written as its public code writes it."""

import torch
import torch.nn.functional as F
from torch import nn


def knn(x, k):
    """(B, N, C) → (B, N, k), in place, as old code has it."""
    square = x.pow(2).sum(-1)
    distance = torch.stack([s[:, None] + s for s in square])
    distance = torch.stack([d.addmm_(a, a.t(), beta=1, alpha=-2) for d, a in zip(distance, x, strict=True)])
    return distance.topk(k, dim=-1, largest=False)[1]


def gather(x, index):
    """(B, N, C) and (B, N, k) → (B, N, k, C)."""
    rows = torch.arange(len(x)).view(-1, 1, 1)
    return x[rows, index]


class LocalSpatialEncoding(nn.Module):
    """RandLA-Net: distances beside coordinates, then attentive pooling; sampled by the shape of the cloud."""

    def __init__(self, classes=5, k=6, width=8):
        super().__init__()
        self.k = k
        self.encode, self.norm = nn.Conv2d(10, width, 1), nn.BatchNorm2d(width)
        self.score, self.mix = nn.Linear(width, width, bias=False), nn.Linear(width, 12)
        self.head = nn.Linear(12, classes)

    def forward(self, xyz):
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

    def __init__(self, classes=5, k=6, width=8):
        super().__init__()
        self.k = k
        self.first = nn.Linear(3, width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.position = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.last, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, xyz):
        index = knn(xyz, self.k)
        x = self.first(xyz)
        position = self.position(xyz[:, :, None] - gather(xyz, index))
        attention = self.weigh(self.query(x)[:, :, None] - gather(self.key(x), index) + position)
        attention = F.softmax(attention / 8**0.5, dim=-2)
        x = torch.einsum("bmnf,bmnf->bmf", attention, gather(self.value(x), index) + position) + x
        return self.head(self.last(x).mean(1))


class RelationShape(nn.Module):
    """RS-CNN: weights from ten numbers of each pair, distance among them, times the features of neighbours."""

    def __init__(self, classes=5, k=6, width=8):
        super().__init__()
        self.k = k
        self.lift = nn.Conv2d(3, width, 1)
        self.relation = nn.Sequential(nn.Conv2d(10, width, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 1))
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, xyz):
        near = gather(xyz, knn(xyz, self.k)).permute(0, 3, 1, 2)
        centre = xyz.permute(0, 2, 1).unsqueeze(-1).expand_as(near)
        distance = torch.norm(near - centre, dim=1, keepdim=True)
        relation = torch.cat((distance, centre, near, centre - near), 1)
        x = (self.relation(relation) * self.lift(near)).max(-1)[0]
        return self.head(F.relu(self.norm(x)).max(-1)[0])


class CurveGate(nn.Module):
    """CurveNet: a sigmoid gate from pooled features, and a tanh."""

    def __init__(self, classes=5, k=6, width=8):
        super().__init__()
        self.k = k
        self.conv, self.norm = nn.Conv2d(6, width, 1), nn.BatchNorm2d(width)
        self.gate, self.shift = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)
        self.head = nn.Linear(width, classes)

    def forward(self, xyz):
        near = gather(xyz, knn(xyz, self.k))
        x = torch.cat([near - xyz.unsqueeze(2), xyz.unsqueeze(2).expand_as(near)], -1).permute(0, 3, 1, 2)
        x = F.leaky_relu(self.norm(self.conv(x)), 0.2).max(-1)[0]
        x = x * torch.sigmoid(self.gate(x)) + x * torch.tanh(self.shift(x))
        return self.head(x.max(-1)[0])


class MaskedPooling(nn.Module):
    """Neighbours beyond a radius are filled with −∞ before the maximum; rows by F.embedding."""

    def __init__(self, classes=5, k=8, width=8):
        super().__init__()
        self.k = k
        self.first, self.norm, self.head = nn.Linear(6, width), nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, xyz):
        batch, count, _ = xyz.shape
        index = knn(xyz, self.k) + torch.arange(batch).view(-1, 1, 1) * count
        near = F.embedding(index, xyz.reshape(-1, 3))
        offset = near - xyz.unsqueeze(2)
        x = self.first(torch.cat([offset, near], -1))
        x = x.masked_fill((offset.norm(dim=-1) > 0.8).unsqueeze(-1), float("-inf")).max(2)[0]
        return self.head(F.relu(self.norm(x.transpose(1, 2))).max(-1)[0])


class Folding(nn.Module):
    """FoldingNet: a grid is folded into a cloud, twice; computed in the cloud's frames (rules="frames")."""

    def __init__(self, width=8, side=5):
        super().__init__()
        self.encode = nn.Conv1d(3, width, 1)
        self.fold1, self.fold2 = nn.Conv1d(width + 2, 3, 1), nn.Conv1d(width + 3, 3, 1)
        line = torch.linspace(-1, 1, side)
        self.register_buffer("grid", torch.stack(torch.meshgrid(line, line, indexing="ij")).flatten(1))

    def forward(self, x):
        code = torch.tanh(self.encode(x)).max(-1, keepdim=True)[0].expand(-1, -1, self.grid.shape[1])
        first = self.fold1(torch.cat([code, self.grid.expand(len(x), -1, -1)], 1))
        return self.fold2(torch.cat([code, first], 1))


class WithMapped(nn.Module):
    """torch.vmap over the clouds."""

    def __init__(self):
        super().__init__()
        self.local, self.head = nn.Linear(3, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.vmap(lambda cloud: cloud - cloud.mean(0))(x)
        return self.head(self.local(x).amax(1))


@torch.jit.script
def centred(x: torch.Tensor) -> torch.Tensor:
    """Subtract the mean, compiled."""
    return x - x.mean(1, keepdim=True)


class WithScripted(WithMapped):
    """A scripted helper."""

    def forward(self, x):
        return self.head(self.local(centred(x)).amax(1))
