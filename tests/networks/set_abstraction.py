"""Set abstraction; its sampling functions come from another Python module, by `import … as` and by `from … import`."""

import torch
import torch.nn.functional as F
from torch import nn

import networks.sampling as su
from networks.sampling import index_points, query_ball_point


class Abstraction(nn.Module):
    """Sample, group, a small network on each group, and the maximum of each."""

    def __init__(self, npoint, radius, nsample, channels, mlp):
        super().__init__()
        self.npoint, self.radius, self.nsample = npoint, radius, nsample
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for width in mlp:
            self.convs.append(nn.Conv2d(channels, width, 1))
            self.norms.append(nn.BatchNorm2d(width))
            channels = width

    def group(self, xyz, features):
        if self.npoint is None:
            centre = torch.zeros(xyz.shape[0], 1, 3).to(xyz.device)
            grouped = xyz.view(xyz.shape[0], 1, -1, 3)
            return centre, grouped if features is None else torch.cat([grouped, features.unsqueeze(1)], dim=-1)
        centre = index_points(xyz, su.farthest_point_sample(xyz, self.npoint))
        index = query_ball_point(self.radius, self.nsample, xyz, centre)
        grouped = index_points(xyz, index) - centre.view(xyz.shape[0], self.npoint, 1, 3)
        if features is not None:
            grouped = torch.cat([grouped, su.index_points(features, index)], dim=-1)
        return centre, grouped

    def forward(self, xyz, features):
        xyz = xyz.permute(0, 2, 1)
        if features is not None:
            features = features.permute(0, 2, 1)
        centre, grouped = self.group(xyz, features)
        grouped = grouped.permute(0, 3, 2, 1)
        for i, conv in enumerate(self.convs):
            grouped = F.relu(self.norms[i](conv(grouped)))
        return centre.permute(0, 2, 1), torch.max(grouped, 2)[0]


class Hierarchy(nn.Module):
    """(B, 3, N), or (B, 6, N) with normals; returns log-probabilities and the pooled features."""

    def __init__(self, classes=5, normals=False):
        super().__init__()
        extra = 3 if normals else 0
        self.normals = normals
        self.sa1 = Abstraction(10, 0.6, 6, 3 + extra, [8, 8])
        self.sa2 = Abstraction(5, 0.9, 4, 8 + 3, [8, 12])
        self.sa3 = Abstraction(None, None, None, 12 + 3, [16])
        self.fc1, self.bn1, self.drop = nn.Linear(16, 12), nn.BatchNorm1d(12), nn.Dropout(0.4)
        self.fc2 = nn.Linear(12, classes)

    def forward(self, cloud):
        batch = cloud.shape[0]
        xyz, features = (cloud[:, :3, :], cloud[:, 3:, :]) if self.normals else (cloud, None)
        xyz, features = self.sa1(xyz, features)
        xyz, features = self.sa2(xyz, features)
        _, features = self.sa3(xyz, features)
        x = features.view(batch, 16)
        x = self.drop(F.relu(self.bn1(self.fc1(x))))
        return F.log_softmax(self.fc2(x), -1), features


class HeldFunctions(nn.Module):
    """(B, N, 3); the sampling functions are attributes of the network."""

    def __init__(self, classes=5, sample=su.farthest_point_sample, group=su.query_ball_point):
        super().__init__()
        self.sample, self.group = sample, group
        self.local = nn.Linear(3, 12)
        self.head = nn.Linear(12, classes)

    def forward(self, xyz):
        centre = su.index_points(xyz, self.sample(xyz, npoint=8))
        near = su.index_points(xyz, self.group(0.7, 5, xyz, centre)) - centre.unsqueeze(2)
        return self.head(torch.relu(self.local(near)).amax(dim=(1, 2)))
