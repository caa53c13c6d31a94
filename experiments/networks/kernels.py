"""Convolutions with kernels in space: KPConv (Thomas et al. 2019), SpiderCNN (Xu et al. 2018), 3D-GCN (Lin et al. 2020)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.networks.grouping import farthest_point_sample, gather, knn


class KernelPointConv(nn.Module):
    """Features weighted by how near each neighbour is to each of a set of points, which are learned.

    Shapes: xyz (B, N, 3), features (B, N, C) → (B, N, out)
    """

    def __init__(self, channels: int, out: int, kernels: int = 7, k: int = 8, extent: float = 0.6) -> None:
        super().__init__()
        self.k, self.extent = k, extent
        self.kernel_points = nn.Parameter(torch.randn(kernels, 3) * extent / 2)
        self.weight = nn.Parameter(torch.randn(kernels, channels, out) / (kernels * channels) ** 0.5)
        self.norm = nn.BatchNorm1d(out)

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        """Features of the same points."""
        index = knn(xyz, self.k)
        offset = gather(xyz, index) - xyz.unsqueeze(2)
        distance = (offset.unsqueeze(3) - self.kernel_points).pow(2).sum(-1).sqrt()
        influence = torch.relu(1 - distance / self.extent)  # (B, N, k, kernels)
        weighted = torch.matmul(influence.transpose(2, 3), gather(features, index))
        x = torch.einsum("bnkc,kcd->bnd", weighted, self.weight)
        return F.leaky_relu(self.norm(x.transpose(1, 2)), 0.1).transpose(1, 2)


class KernelPointNet(nn.Module):
    """(B, N, 3): two kernel-point convolutions, the second one on sampled points."""

    def __init__(self, classes: int = 5, width: int = 12) -> None:
        super().__init__()
        self.conv1, self.conv2 = KernelPointConv(1, width), KernelPointConv(width, 2 * width, extent=0.9)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Logits."""
        x = self.conv1(xyz, torch.ones(*xyz.shape[:2], 1, dtype=xyz.dtype, device=xyz.device))
        index = farthest_point_sample(xyz, xyz.shape[1] // 2).unsqueeze(-1)
        x = self.conv2(gather(xyz, index).squeeze(2), gather(x, index).squeeze(2))
        return self.head(x.mean(1))


class SpiderConv(nn.Module):
    """Weights of neighbours by a Taylor polynomial of their coordinates: 1, x, y, z, xy, …, z³.

    Shapes: offset (B, 3, N, k), features (B, C, N, k) → (B, out, N)
    """

    def __init__(self, channels: int, out: int, k: int, taylor: int = 3) -> None:
        super().__init__()
        self.taylor = nn.Conv2d(20, taylor, 1)
        self.mix = nn.Conv2d(channels * taylor, out, (1, k))
        self.norm = nn.BatchNorm2d(out)

    def forward(self, offset: Tensor, features: Tensor) -> Tensor:
        """Features of the centres."""
        x, y, z = offset.split(1, dim=1)
        first, second = [x, y, z], [x * x, x * y, x * z, y * y, y * z, z * z]
        third = [x * s for s in second] + [y * s for s in second[3:]] + [z * z * z]
        polynomial = self.taylor(torch.cat([torch.ones_like(x), *first, *second, *third], 1))
        x = (features.unsqueeze(2) * polynomial.unsqueeze(1)).flatten(1, 2)
        return torch.relu(self.norm(self.mix(x))).squeeze(-1)


class SpiderNet(nn.Module):
    """(B, 3, N): two Spider convolutions, then pooling over the points."""

    def __init__(self, classes: int = 5, k: int = 6, width: int = 8) -> None:
        super().__init__()
        self.k = k
        self.spider1, self.spider2 = SpiderConv(3, width, k), SpiderConv(width, 2 * width, k)
        self.head = nn.Sequential(nn.Linear(3 * width, 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        xyz = x.transpose(1, 2)
        index = knn(xyz, self.k)
        near = gather(xyz, index)
        offset = (near - xyz.unsqueeze(2)).permute(0, 3, 1, 2)
        first = self.spider1(offset, near.permute(0, 3, 1, 2))
        second = self.spider2(offset, gather(first.transpose(1, 2), index).permute(0, 3, 1, 2))
        return self.head(torch.cat([first, second], 1).max(2)[0])


class DirectionConv(nn.Module):
    """Cosines between the directions to neighbours and learned directions; features beside them, if there are any.

    Shapes: xyz (B, N, 3), features (B, N, C) or None → (B, N, out)
    """

    def __init__(self, channels: int, out: int, supports: int = 2, k: int = 6) -> None:
        super().__init__()
        self.k, self.supports, self.out = k, supports, out
        self.directions = nn.Parameter(torch.randn(3, supports * out))
        if channels:
            self.weight = nn.Linear(channels, (supports + 1) * out)

    def forward(self, xyz: Tensor, features: Tensor | None = None) -> Tensor:
        """Features of the same points."""
        index = knn(xyz, self.k + 1)[:, :, 1:]
        direction = F.normalize(gather(xyz, index) - xyz.unsqueeze(2), dim=-1)
        cosine = torch.relu(direction @ F.normalize(self.directions, dim=0))  # (B, N, k, supports·out)
        if features is None:
            return cosine.max(2)[0].unflatten(-1, (self.supports, self.out)).sum(2)
        centre, support = self.weight(features).split([self.out, self.supports * self.out], -1)
        found = (cosine * gather(support, index)).max(2)[0]
        return centre + found.unflatten(-1, (self.supports, self.out)).sum(2)


class DirectionNet(nn.Module):
    """(B, N, 3): graph convolutions with learned directions."""

    def __init__(self, classes: int = 5, width: int = 8) -> None:
        super().__init__()
        self.surface, self.conv = DirectionConv(0, width), DirectionConv(width, 2 * width)
        self.norm, self.head = nn.BatchNorm1d(2 * width), nn.Linear(2 * width, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Logits."""
        x = torch.relu(self.surface(xyz))
        x = self.conv(xyz, x)
        return self.head(torch.relu(self.norm(x.transpose(1, 2))).max(2)[0])
