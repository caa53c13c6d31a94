"""PointConv (Wu et al., 2019), the density version, as its PyTorch code spells it."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from experiments.styles.grouping import farthest_point_sample, index_points, knn_point, square_distance


def compute_density(xyz, bandwidth):
    """(B, N, 3) → Gaussian kernel density (B, N)."""
    sqrdists = square_distance(xyz, xyz)
    gaussian_density = torch.exp(-sqrdists / (2.0 * bandwidth * bandwidth)) / (2.5 * bandwidth)
    return gaussian_density.mean(dim=-1)


def sample_and_group(npoint, nsample, xyz, points, density_scale):
    """Centres, groups [relative coordinates, features], relative coordinates, densities of the neighbours."""
    B, _, C = xyz.shape
    fps_idx = farthest_point_sample(xyz, npoint)
    new_xyz = index_points(xyz, fps_idx)
    idx = knn_point(nsample, xyz, new_xyz)
    grouped_xyz = index_points(xyz, idx)
    grouped_xyz_norm = grouped_xyz - new_xyz.view(B, npoint, 1, C)
    if points is not None:
        grouped_points = index_points(points, idx)
        new_points = torch.cat([grouped_xyz_norm, grouped_points], dim=-1)
    else:
        new_points = grouped_xyz_norm
    return new_xyz, new_points, grouped_xyz_norm, index_points(density_scale, idx)


def sample_and_group_all(xyz, points, density_scale):
    """One group of all points, around their mean."""
    B, N, C = xyz.shape
    new_xyz = xyz.mean(dim=1, keepdim=True)
    grouped_xyz = xyz.view(B, 1, N, C) - new_xyz.view(B, 1, 1, C)
    new_points = grouped_xyz if points is None else torch.cat([grouped_xyz, points.view(B, 1, N, -1)], dim=-1)
    return new_xyz, new_points, grouped_xyz, density_scale.view(B, 1, N, 1)


class DensityNet(nn.Module):
    """Densities (B, N) → scales (B, 1, N)."""

    def __init__(self, hidden_unit=(8, 8)):
        super().__init__()
        widths = (1, *hidden_unit, 1)
        self.mlp_convs = nn.ModuleList(nn.Conv1d(a, b, 1) for a, b in pairwise(widths))
        self.mlp_bns = nn.ModuleList(nn.BatchNorm1d(b) for b in widths[1:])

    def forward(self, xyz_density):
        """A small MLP at every point."""
        density_scale = xyz_density.unsqueeze(1)
        for i, conv in enumerate(self.mlp_convs):
            bn = self.mlp_bns[i]
            density_scale = F.relu(bn(conv(density_scale)))
        return density_scale


class WeightNet(nn.Module):
    """Relative coordinates (B, 3, K, S) → weights (B, W, K, S)."""

    def __init__(self, in_channel, out_channel, hidden_unit=(8, 8)):
        super().__init__()
        widths = (in_channel, *hidden_unit, out_channel)
        self.mlp_convs = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in pairwise(widths))
        self.mlp_bns = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])

    def forward(self, localized_xyz):
        """A small MLP at every neighbour."""
        weights = localized_xyz
        for i, conv in enumerate(self.mlp_convs):
            bn = self.mlp_bns[i]
            weights = F.relu(bn(conv(weights)))
        return weights


class PointConvDensitySetAbstraction(nn.Module):
    """(B, 3, N), (B, D, N) → (B, 3, S), (B, D', S)."""

    def __init__(self, npoint, nsample, in_channel, mlp, bandwidth, group_all, weights=16):
        super().__init__()
        self.npoint, self.nsample, self.bandwidth, self.group_all = npoint, nsample, bandwidth, group_all
        self.mlp_convs = nn.ModuleList()
        self.mlp_bns = nn.ModuleList()
        last_channel = in_channel
        for out_channel in mlp:
            self.mlp_convs.append(nn.Conv2d(last_channel, out_channel, 1))
            self.mlp_bns.append(nn.BatchNorm2d(out_channel))
            last_channel = out_channel
        self.weightnet = WeightNet(3, weights)
        self.linear = nn.Linear(weights * mlp[-1], mlp[-1])
        self.bn_linear = nn.BatchNorm1d(mlp[-1])
        self.densitynet = DensityNet()

    def forward(self, xyz, points):
        """Features (C×K) times weights (K×W) at each centre, then a linear map of C·W to C'."""
        B, _, N = xyz.shape
        xyz = xyz.permute(0, 2, 1)
        if points is not None:
            points = points.permute(0, 2, 1)
        density_scale = self.densitynet(compute_density(xyz, self.bandwidth)).view(B, N, 1)
        if self.group_all:
            grouped = sample_and_group_all(xyz, points, density_scale)
        else:
            grouped = sample_and_group(self.npoint, self.nsample, xyz, points, density_scale)
        new_xyz, new_points, grouped_xyz_norm, grouped_density = grouped
        new_points = new_points.permute(0, 3, 2, 1)  # (B, 3 + D, K, S)
        for i, conv in enumerate(self.mlp_convs):
            bn = self.mlp_bns[i]
            new_points = F.relu(bn(conv(new_points)))

        weights = self.weightnet(grouped_xyz_norm.permute(0, 3, 2, 1))
        new_points = new_points * grouped_density.permute(0, 3, 2, 1)
        new_points = torch.matmul(input=new_points.permute(0, 3, 1, 2), other=weights.permute(0, 3, 2, 1))
        new_points = self.linear(new_points.view(B, self.npoint, -1))
        new_points = F.relu(self.bn_linear(new_points.permute(0, 2, 1)))
        return new_xyz.permute(0, 2, 1), new_points


class PointConv(nn.Module):
    """(B, 3, N) → log-probabilities (B, classes)."""

    def __init__(self, classes=40, npoints=(512, 128), nsamples=(32, 64), mlps=None, hidden=(512, 256), weights=16):
        super().__init__()
        first, second, third = mlps or ([64, 64, 128], [128, 128, 256], [256, 512, 1024])
        self.sa1 = PointConvDensitySetAbstraction(npoints[0], nsamples[0], 3, first, 0.1, False, weights)
        self.sa2 = PointConvDensitySetAbstraction(npoints[1], nsamples[1], first[-1] + 3, second, 0.2, False, weights)
        self.sa3 = PointConvDensitySetAbstraction(1, None, second[-1] + 3, third, 0.4, True, weights)
        self.fc1 = nn.Linear(third[-1], hidden[0])
        self.bn1 = nn.BatchNorm1d(hidden[0])
        self.drop1 = nn.Dropout(0.4)
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.bn2 = nn.BatchNorm1d(hidden[1])
        self.drop2 = nn.Dropout(0.4)
        self.fc3 = nn.Linear(hidden[1], classes)

    def forward(self, xyz):
        """Three levels of density-weighted convolution, then the head."""
        B, _, _ = xyz.shape
        l1_xyz, l1_points = self.sa1(xyz, None)
        l2_xyz, l2_points = self.sa2(l1_xyz, l1_points)
        _, l3_points = self.sa3(l2_xyz, l2_points)
        x = l3_points.view(B, -1)
        x = self.drop1(F.relu(self.bn1(self.fc1(x))))
        x = self.drop2(F.relu(self.bn2(self.fc2(x))))
        return F.log_softmax(self.fc3(x), -1)
