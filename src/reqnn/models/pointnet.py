"""PointNet for classification and for reconstruction (Qi et al., CVPR 2017)."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

from .layers import ClassificationHead, check_points, scaled
from .registry import register


class TransformNet(nn.Module):
    """T-Net: predicts a k×k matrix for a cloud, the identity at initialisation. Shapes: (B, k, N) → (B, k, k)."""

    def __init__(self, k: int, width: float = 1.0) -> None:
        super().__init__()
        self.k = k
        c1, c2, c3, c4, c5 = (scaled(c, width) for c in (64, 128, 1024, 512, 256))
        self.conv1, self.bn1 = nn.Conv1d(k, c1, 1), nn.BatchNorm1d(c1)
        self.conv2, self.bn2 = nn.Conv1d(c1, c2, 1), nn.BatchNorm1d(c2)
        self.conv3, self.bn3 = nn.Conv1d(c2, c3, 1), nn.BatchNorm1d(c3)
        self.fc1, self.bn4 = nn.Linear(c3, c4), nn.BatchNorm1d(c4)
        self.fc2, self.bn5 = nn.Linear(c4, c5), nn.BatchNorm1d(c5)
        self.fc3 = nn.Linear(c5, k * k)
        nn.init.zeros_(self.fc3.weight)
        with torch.no_grad():
            self.fc3.bias.copy_(torch.eye(k).flatten())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = torch.max(x, 2)[0]
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        return self.fc3(x).view(-1, self.k, self.k)


@register("pointnet", to_real="head.fc1", fixed={"stn": False})
@register("pointnet_stn", to_real="head.fc1", remove=("stn", "fstn"), fixed={"stn": True})
class PointNet(nn.Module):
    """A shared MLP on each point, 3→64→64→64→128→1024, the maximum over the points, and a head.

    With `stn=True` two transformer networks multiply the input (3×3) and the 64-wide features (64×64) by predicted
    matrices (3.5 M parameters); without them it is the paper's vanilla PointNet (0.8 M). The paper's orthogonality
    penalty on the feature transform belongs to a training loss, and is not part of the network.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    min_points = 1

    def __init__(self, num_classes: int = 40, width: float = 1.0, stn: bool = False, dropout: float = 0.3) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = (scaled(c, width) for c in (64, 64, 64, 128, 1024))
        self.stn = TransformNet(3, width) if stn else None
        self.conv1, self.bn1 = nn.Conv1d(3, c1, 1), nn.BatchNorm1d(c1)
        self.conv2, self.bn2 = nn.Conv1d(c1, c2, 1), nn.BatchNorm1d(c2)
        self.fstn = TransformNet(c2, width) if stn else None
        self.conv3, self.bn3 = nn.Conv1d(c2, c3, 1), nn.BatchNorm1d(c3)
        self.conv4, self.bn4 = nn.Conv1d(c3, c4, 1), nn.BatchNorm1d(c4)
        self.conv5, self.bn5 = nn.Conv1d(c4, c5, 1), nn.BatchNorm1d(c5)
        self.head = ClassificationHead(c5, num_classes, width, dropout)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.min_points, "PointNet pools over points")
        x = points.transpose(2, 1)
        if self.stn is not None:
            trans = self.stn(x)
            x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        if self.fstn is not None:
            trans = self.fstn(x)
            x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn3(self.conv3(x)))
        x = F.relu(self.bn4(self.conv4(x)))
        x = F.relu(self.bn5(self.conv5(x)))
        return self.head(torch.max(x, 2)[0])


@register("pointnet_reconstruction")
class PointNetReconstruction(nn.Module):
    """A shared MLP that gives each point back, 3→64→64→64→128→1024→128→64→3, with no pooling.

    The REQNN paper reconstructs with a PointNet whose layers it does not list; this chain is inferred from its counts
    of parameters and operations. Hidden layers are Conv → BN → ReLU; dropout, off by default, acts on the 1024-wide
    features. Revised, every feature is a multiple of the point's own vector: it can only move points radially.

    Shapes: points (B, N, 3) → (B, N, 3).
    """

    min_points = 1

    def __init__(self, width: float = 1.0, dropout: float = 0.0) -> None:
        super().__init__()
        c1, c2, c3, c4, c5, c6, c7 = (scaled(c, width) for c in (64, 64, 64, 128, 1024, 128, 64))
        self.conv1, self.bn1 = nn.Conv1d(3, c1, 1), nn.BatchNorm1d(c1)
        self.conv2, self.bn2 = nn.Conv1d(c1, c2, 1), nn.BatchNorm1d(c2)
        self.conv3, self.bn3 = nn.Conv1d(c2, c3, 1), nn.BatchNorm1d(c3)
        self.conv4, self.bn4 = nn.Conv1d(c3, c4, 1), nn.BatchNorm1d(c4)
        self.conv5, self.bn5 = nn.Conv1d(c4, c5, 1), nn.BatchNorm1d(c5)
        self.dropout = nn.Dropout(dropout)
        self.conv6, self.bn6 = nn.Conv1d(c5, c6, 1), nn.BatchNorm1d(c6)
        self.conv7, self.bn7 = nn.Conv1d(c6, c7, 1), nn.BatchNorm1d(c7)
        self.conv8 = nn.Conv1d(c7, 3, 1)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.min_points, "PointNetReconstruction maps points")
        x = points.transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = F.relu(self.bn4(self.conv4(x)))
        x = self.dropout(F.relu(self.bn5(self.conv5(x))))
        x = F.relu(self.bn6(self.conv6(x)))
        x = F.relu(self.bn7(self.conv7(x)))
        return self.conv8(x).transpose(2, 1)
