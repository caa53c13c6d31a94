"""Networks that weigh features by raw coordinates, or use more than xyz."""

import torch
import torch.nn.functional as F
from torch import nn

from networks.graph import knn


class WeightNet(nn.Module):
    """(B, 3, k, N) coordinate differences → (B, W, k, N) weights."""

    def __init__(self, width=4):
        super().__init__()
        self.hidden, self.out = nn.Conv2d(3, 8, 1), nn.Conv2d(8, width, 1)

    def forward(self, differences):
        return torch.relu(self.out(torch.relu(self.hidden(differences))))


class WeightedConvolution(nn.Module):
    """(B, 3, N); neighbours' features times weights that depend on where the neighbours are."""

    def __init__(self, classes=5, k=6, width=8):
        super().__init__()
        self.k = k
        self.features = nn.Conv1d(3, width, 1)
        self.weightnet = WeightNet(4)
        self.linear = nn.Linear(4 * width, 12)
        self.norm = nn.BatchNorm1d(12)
        self.head = nn.Linear(12, classes)

    def forward(self, xyz):
        batch, _, count = xyz.shape
        index = knn(xyz, self.k)
        rows = torch.arange(batch).view(-1, 1, 1)
        points = xyz.permute(0, 2, 1)
        differences = points[rows, index] - points.unsqueeze(2)
        near = torch.relu(self.features(xyz)).permute(0, 2, 1)[rows, index]
        weights = self.weightnet(differences.permute(0, 3, 2, 1))
        mixed = torch.matmul(near.permute(0, 1, 3, 2), weights.permute(0, 3, 2, 1))
        x = self.linear(mixed.reshape(batch, count, -1))
        x = F.relu(self.norm(x.permute(0, 2, 1)))
        return self.head(x.max(-1)[0])


class Normals(nn.Module):
    """(B, 6, N); two branches, for positions and for normals, by slices."""

    def __init__(self, classes=5):
        super().__init__()
        self.position, self.normal = nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1)
        self.both = nn.Conv1d(16 + 6, 16, 1)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        xyz, normals = x[:, :3], x[:, 3:]
        xyz = xyz - xyz.mean(dim=2, keepdim=True)
        x = torch.cat([self.position(xyz).relu(), self.normal(normals).relu(), xyz, normals], 1)
        return self.head(self.both(x).max(-1)[0])


class Colours(nn.Module):
    """(B, N, 6); positions and colours in the same tensor."""

    def __init__(self, classes=5):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(6, 12, 1), nn.Conv1d(12, 16, 1)
        self.bn1, self.bn2 = nn.BatchNorm1d(12), nn.BatchNorm1d(16)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x.transpose(1, 2))))
        return self.head(F.relu(self.bn2(self.conv2(x))).max(2)[0])


class AffineGroups(nn.Module):
    """(B, N, 3); groups are normalised by their spread, then scaled and shifted by parameters of shape (1, 1, 1, C)."""

    def __init__(self, classes=5, k=5, width=8):
        super().__init__()
        self.k = k
        self.embed = nn.Linear(3, width)
        self.alpha = nn.Parameter(torch.ones([1, 1, 1, width + 3]))
        self.beta = nn.Parameter(torch.zeros([1, 1, 1, width + 3]))
        self.mlp = nn.Sequential(nn.Linear(width + 3, 12), nn.ReLU(), nn.Linear(12, 12))
        self.head = nn.Linear(12, classes)

    def forward(self, xyz):
        index = torch.cdist(xyz, xyz).topk(self.k, largest=False).indices
        rows = torch.arange(len(xyz))[:, None, None]
        points = torch.cat([self.embed(xyz), xyz], dim=-1)
        near = points[rows, index]
        centred = near - near.mean(dim=2, keepdim=True)
        spread = torch.std(centred.reshape(len(xyz), -1), dim=-1, keepdim=True).unsqueeze(-1).unsqueeze(-1)
        x = self.alpha * (centred / (spread + 1e-5)) + self.beta
        return self.head(self.mlp(x).amax(2).mean(1))
