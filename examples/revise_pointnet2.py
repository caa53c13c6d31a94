"""Revise a PointNet++ as public repositories write it: nothing in the class knows about reqnn.

python examples/revise_pointnet2.py
"""

import torch
import torch.nn.functional as F
from torch import nn

import reqnn


def index_points(points, idx):
    """Points (B, N, C) at indices (B, …): (B, …, C)."""
    batch = torch.arange(len(points)).view(-1, *[1] * (idx.dim() - 1)).expand_as(idx)
    return points[batch, idx]


def farthest_point_sample(xyz, npoint):
    """Indices (B, npoint); the first point is random, so the result depends on the order of the points."""
    chosen = torch.randint(xyz.shape[1], (len(xyz), 1))
    for _ in range(npoint - 1):
        distance = torch.cdist(xyz, index_points(xyz, chosen)).amin(-1)
        chosen = torch.cat([chosen, distance.argmax(-1, keepdim=True)], 1)
    return chosen


def query_ball_point(radius, nsample, xyz, new_xyz):
    """Indices (B, S, nsample) of the first points within a radius; short lists repeat their first entry."""
    index = torch.arange(xyz.shape[1]).expand(len(xyz), new_xyz.shape[1], -1).clone()
    index[torch.cdist(new_xyz, xyz) > radius] = xyz.shape[1]
    index = index.sort(-1).values[..., :nsample]
    return torch.where(index == xyz.shape[1], index[..., :1], index)


class PointNet2(nn.Module):
    """Clouds (B, N, 3) → logits (B, classes)."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 32, 1), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv1d(35, 64, 1), nn.BatchNorm1d(64)
        self.head = nn.Linear(64, classes)

    def forward(self, xyz):
        centres = index_points(xyz, farthest_point_sample(xyz, 16))
        groups = index_points(xyz, query_ball_point(0.5, 8, xyz, centres)) - centres[:, :, None]  # (B, 16, 8, 3)
        x = F.relu(self.bn1(self.conv1(groups.permute(0, 3, 1, 2)))).max(-1)[0]  # (B, 32, 16)
        x = torch.cat([centres.transpose(1, 2), x], 1)
        return self.head(F.relu(self.bn2(self.conv2(x))).max(-1)[0])


torch.manual_seed(0)
points, _ = reqnn.data.surfaces(4, 96, dtype=torch.float32)
net = reqnn.revise(PointNet2(), points, rules="full")
print(net.report)

report = reqnn.audit(net, points, rotations=4, permutations=2)
print(report)
assert report.ok
assert not reqnn.audit(PointNet2(), points, rotations=4, permutations=2).ok  # the original depends on orientation and order
