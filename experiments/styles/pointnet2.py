"""PointNet++ (Qi et al., 2017), single-scale and multi-scale grouping, as most PyTorch code spells it."""

import torch
import torch.nn.functional as F
from torch import nn

from experiments.styles.grouping import farthest_point_sample, index_points, square_distance


def query_ball_point(radius, nsample, xyz, new_xyz):
    """Indices (B, S, nsample) of points within a radius of each centre; a short list repeats its first entry."""
    B, N, _ = xyz.shape
    _, S, _ = new_xyz.shape
    group_idx = torch.arange(N, dtype=torch.long).to(xyz.device).view(1, 1, N).repeat([B, S, 1])
    sqrdists = square_distance(new_xyz, xyz)
    group_idx[sqrdists > radius**2] = N
    group_idx = group_idx.sort(dim=-1)[0][:, :, :nsample]
    group_first = group_idx[:, :, 0].view(B, S, 1).repeat([1, 1, nsample])
    mask = group_idx == N
    group_idx[mask] = group_first[mask]
    return group_idx


def sample_and_group(npoint, radius, nsample, xyz, points):
    """Centres (B, S, 3) and their groups (B, S, nsample, 3 + D): relative coordinates, then features."""
    B, _, C = xyz.shape
    fps_idx = farthest_point_sample(xyz, npoint)
    new_xyz = index_points(xyz, fps_idx)
    idx = query_ball_point(radius, nsample, xyz, new_xyz)
    grouped_xyz = index_points(xyz, idx)
    grouped_xyz_norm = grouped_xyz - new_xyz.view(B, npoint, 1, C)
    if points is None:
        return new_xyz, grouped_xyz_norm
    grouped_points = index_points(points, idx)
    return new_xyz, torch.cat([grouped_xyz_norm, grouped_points], dim=-1)


def sample_and_group_all(xyz, points):
    """One group (B, 1, N, 3 + D) of all points, around the origin."""
    B, N, C = xyz.shape
    new_xyz = torch.zeros(B, 1, C).to(xyz.device)
    grouped_xyz = xyz.view(B, 1, N, C)
    if points is None:
        return new_xyz, grouped_xyz
    return new_xyz, torch.cat([grouped_xyz, points.view(B, 1, N, -1)], dim=-1)


class PointNetSetAbstraction(nn.Module):
    """(B, 3, N), (B, D, N) → (B, 3, S), (B, D', S)."""

    def __init__(self, npoint, radius, nsample, in_channel, mlp, group_all):
        super().__init__()
        self.npoint, self.radius, self.nsample, self.group_all = npoint, radius, nsample, group_all
        self.mlp_convs = nn.ModuleList()
        self.mlp_bns = nn.ModuleList()
        last_channel = in_channel
        for out_channel in mlp:
            self.mlp_convs.append(nn.Conv2d(last_channel, out_channel, 1))
            self.mlp_bns.append(nn.BatchNorm2d(out_channel))
            last_channel = out_channel

    def forward(self, xyz, points):
        """Group, apply the MLP at every neighbour, take the maximum over each group."""
        xyz = xyz.permute(0, 2, 1)
        if points is not None:
            points = points.permute(0, 2, 1)
        if self.group_all:
            new_xyz, new_points = sample_and_group_all(xyz, points)
        else:
            new_xyz, new_points = sample_and_group(self.npoint, self.radius, self.nsample, xyz, points)
        new_points = new_points.permute(0, 3, 2, 1)  # (B, 3 + D, nsample, S)
        for i, conv in enumerate(self.mlp_convs):
            bn = self.mlp_bns[i]
            new_points = F.relu(bn(conv(new_points)))
        new_points = torch.max(new_points, 2)[0]
        return new_xyz.permute(0, 2, 1), new_points


class PointNetSetAbstractionMsg(nn.Module):
    """(B, 3, N), (B, D, N) → (B, 3, S), (B, sum of D', S): the same centres at several radii."""

    def __init__(self, npoint, radius_list, nsample_list, in_channel, mlp_list):
        super().__init__()
        self.npoint, self.radius_list, self.nsample_list = npoint, radius_list, nsample_list
        self.conv_blocks = nn.ModuleList()
        self.bn_blocks = nn.ModuleList()
        for mlp in mlp_list:
            convs, bns = nn.ModuleList(), nn.ModuleList()
            last_channel = in_channel + 3
            for out_channel in mlp:
                convs.append(nn.Conv2d(last_channel, out_channel, 1))
                bns.append(nn.BatchNorm2d(out_channel))
                last_channel = out_channel
            self.conv_blocks.append(convs)
            self.bn_blocks.append(bns)

    def forward(self, xyz, points):
        """Features come before coordinates here, and the centres are subtracted in place."""
        xyz = xyz.permute(0, 2, 1)
        if points is not None:
            points = points.permute(0, 2, 1)
        B, _, C = xyz.shape
        S = self.npoint
        new_xyz = index_points(xyz, farthest_point_sample(xyz, S))
        new_points_list = []
        for i, radius in enumerate(self.radius_list):
            group_idx = query_ball_point(radius, self.nsample_list[i], xyz, new_xyz)
            grouped_xyz = index_points(xyz, group_idx)
            grouped_xyz -= new_xyz.view(B, S, 1, C)
            if points is not None:
                grouped_points = index_points(points, group_idx)
                grouped_points = torch.cat([grouped_points, grouped_xyz], dim=-1)
            else:
                grouped_points = grouped_xyz
            grouped_points = grouped_points.permute(0, 3, 2, 1)  # (B, D + 3, nsample, S)
            for j in range(len(self.conv_blocks[i])):
                conv = self.conv_blocks[i][j]
                bn = self.bn_blocks[i][j]
                grouped_points = F.relu(bn(conv(grouped_points)))
            new_points_list.append(torch.max(grouped_points, 2)[0])
        return new_xyz.permute(0, 2, 1), torch.cat(new_points_list, dim=1)


class Head(nn.Module):
    """(B, C) → log-probabilities (B, classes)."""

    def __init__(self, channels, hidden, classes):
        super().__init__()
        self.fc1 = nn.Linear(channels, hidden[0])
        self.bn1 = nn.BatchNorm1d(hidden[0])
        self.drop1 = nn.Dropout(0.4)
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.bn2 = nn.BatchNorm1d(hidden[1])
        self.drop2 = nn.Dropout(0.4)
        self.fc3 = nn.Linear(hidden[1], classes)

    def forward(self, x):
        """Two hidden layers with dropout."""
        x = self.drop1(F.relu(self.bn1(self.fc1(x))))
        x = self.drop2(F.relu(self.bn2(self.fc2(x))))
        return F.log_softmax(self.fc3(x), -1)


class PointNet2Ssg(nn.Module):
    """(B, 3, N) → (B, classes) and the global feature (B, C, 1)."""

    def __init__(self, classes=40, npoints=(512, 128), radii=(0.2, 0.4), nsamples=(32, 64), mlps=None, hidden=(512, 256)):
        super().__init__()
        first, second, third = mlps or ([64, 64, 128], [128, 128, 256], [256, 512, 1024])
        self.sa1 = PointNetSetAbstraction(npoints[0], radii[0], nsamples[0], 3, first, False)
        self.sa2 = PointNetSetAbstraction(npoints[1], radii[1], nsamples[1], first[-1] + 3, second, False)
        self.sa3 = PointNetSetAbstraction(None, None, None, second[-1] + 3, third, True)
        self.head = Head(third[-1], hidden, classes)

    def forward(self, xyz):
        """Three levels of set abstraction, then the head."""
        B, _, _ = xyz.shape
        l1_xyz, l1_points = self.sa1(xyz, None)
        l2_xyz, l2_points = self.sa2(l1_xyz, l1_points)
        _, l3_points = self.sa3(l2_xyz, l2_points)
        return self.head(l3_points.view(B, -1)), l3_points


class PointNet2Msg(nn.Module):
    """(B, 3, N) → (B, classes) and the global feature (B, C, 1)."""

    def __init__(
        self,
        classes=40,
        npoints=(512, 128),
        radii=((0.1, 0.2, 0.4), (0.2, 0.4, 0.8)),
        nsamples=((16, 32, 128), (32, 64, 128)),
        mlps=None,
        hidden=(512, 256),
    ):
        super().__init__()
        first, second, third = mlps or (
            [[32, 32, 64], [64, 64, 128], [64, 96, 128]],
            [[64, 64, 128], [128, 128, 256], [128, 128, 256]],
            [256, 512, 1024],
        )
        self.sa1 = PointNetSetAbstractionMsg(npoints[0], radii[0], nsamples[0], 0, first)
        self.sa2 = PointNetSetAbstractionMsg(npoints[1], radii[1], nsamples[1], sum(m[-1] for m in first), second)
        self.sa3 = PointNetSetAbstraction(None, None, None, sum(m[-1] for m in second) + 3, third, True)
        self.head = Head(third[-1], hidden, classes)

    def forward(self, xyz):
        """Two multi-scale levels, one group of all points, the head."""
        B, _, _ = xyz.shape
        l1_xyz, l1_points = self.sa1(xyz, None)
        l2_xyz, l2_points = self.sa2(l1_xyz, l1_points)
        _, l3_points = self.sa3(l2_xyz, l2_points)
        return self.head(l3_points.view(B, -1)), l3_points
