"""PointNet (Qi et al. 2017), with and without learned transforms, and features propagated to points as PointNet++ does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.networks.grouping import farthest_point_sample, gather


class PointNet(nn.Module):
    """(B, 3, N): a shared MLP on the points, their maximum, a head."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 16, 1), nn.Conv1d(16, 24, 1), nn.Conv1d(24, 32, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(16), nn.BatchNorm1d(24), nn.BatchNorm1d(32)
        self.fc1, self.bn4, self.fc2 = nn.Linear(32, 16), nn.BatchNorm1d(16), nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(self.bn3(self.conv3(x)), 2)[0]
        return F.log_softmax(self.fc2(F.relu(self.bn4(self.fc1(x)))), dim=1)


class TransformNet(nn.Module):
    """(B, k, N) → (B, k, k), the identity plus what is learned."""

    def __init__(self, k: int = 3) -> None:
        super().__init__()
        self.k = k
        self.conv, self.fc = nn.Conv1d(k, 16, 1), nn.Linear(16, k * k)

    def forward(self, x: Tensor) -> Tensor:
        """The transform."""
        x = self.fc(torch.relu(self.conv(x)).max(2)[0])
        eye = torch.eye(self.k, dtype=x.dtype).flatten()[None].repeat(x.shape[0], 1)
        return (x + eye).view(-1, self.k, self.k)


class TransformedPointNet(nn.Module):
    """(B, 3, N); coordinates and features are multiplied by learned matrices, which are returned too."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.stn, self.fstn = TransformNet(3), TransformNet(8)
        self.conv1, self.conv2 = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 16, 1)
        self.bn1, self.bn2 = nn.BatchNorm1d(8), nn.BatchNorm1d(16)
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities and the two matrices."""
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        trans_feat = self.fstn(x)
        x = torch.bmm(x.transpose(2, 1), trans_feat).transpose(2, 1)
        x = torch.max(self.bn2(self.conv2(x)), 2, keepdim=True)[0]
        return F.log_softmax(self.head(x.view(-1, 16)), dim=1), trans, trans_feat


class Propagation(nn.Module):
    """(B, N, 3) → (B, N, classes): features of sampled points, interpolated back by inverse distances."""

    def __init__(self, classes: int = 5, width: int = 12) -> None:
        super().__init__()
        self.local, self.after = nn.Linear(3, width), nn.Linear(width + 3, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, classes)

    def forward(self, xyz: Tensor) -> Tensor:
        """Log-probabilities of each point."""
        batch, count, _ = xyz.shape
        centre = gather(xyz, farthest_point_sample(xyz, 8).unsqueeze(-1)).squeeze(2)
        distance, index = (xyz.unsqueeze(2) - centre.unsqueeze(1)).pow(2).sum(-1).sort(dim=-1)
        distance, index = distance[:, :, :3], index[:, :, :3]
        weight = 1.0 / (distance + 1e-3)
        weight = weight / torch.sum(weight, dim=2, keepdim=True)
        near = gather(torch.relu(self.local(centre)), index)
        mixed = torch.sum(near * weight.view(batch, count, 3, 1), dim=2)
        x = self.after(torch.cat([xyz, mixed], dim=-1))
        x = torch.relu(self.norm(x.permute(0, 2, 1)).permute(0, 2, 1))
        return torch.log_softmax(self.last(x), dim=-1)
