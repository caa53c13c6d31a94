"""Point Cloud Transformer (Guo et al., 2021) with neighbour embedding and offset attention."""

import torch
import torch.nn.functional as F
from torch import nn


def square_distance(src, dst):
    """(B, N, C), (B, M, C) → squared distances (B, N, M), from all differences."""
    return torch.sum((src[:, :, None] - dst[:, None]) ** 2, dim=-1)


def index_points(points, idx):
    """(B, N, C), indices (B, …) → (B, …, C), by `torch.gather` with flattened and expanded indices."""
    raw_size = idx.size()
    idx = idx.reshape(raw_size[0], -1)
    res = torch.gather(points, 1, idx[..., None].expand(-1, -1, points.size(-1)))
    return res.reshape(*raw_size, -1)


def farthest_point_sample(xyz, npoint):
    """(B, N, 3) → indices (B, npoint), beginning with point 0."""
    B, N, _ = xyz.shape
    centroids = torch.zeros(B, npoint, dtype=torch.long, device=xyz.device)
    distance = torch.full((B, N), 1e10, dtype=xyz.dtype, device=xyz.device)
    farthest = torch.zeros(B, dtype=torch.long, device=xyz.device)
    batch_indices = torch.arange(B, device=xyz.device)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[batch_indices, farthest, :].view(B, 1, 3)
        distance = torch.min(distance, torch.sum((xyz - centroid) ** 2, -1))
        farthest = torch.max(distance, -1)[1]
    return centroids


def knn_point(nsample, xyz, new_xyz):
    """Indices (B, S, nsample) of the points nearest to each centre, in no order."""
    _, group_idx = torch.topk(square_distance(new_xyz, xyz), nsample, dim=-1, largest=False, sorted=False)
    return group_idx


def sample_and_group(npoint, nsample, xyz, points):
    """Centres (B, S, 3) and groups (B, S, k, 2D): differences of features, and the centre's own, repeated."""
    B = xyz.shape[0]
    fps_idx = farthest_point_sample(xyz, npoint)
    new_xyz = index_points(xyz, fps_idx)
    new_points = index_points(points, fps_idx)
    idx = knn_point(nsample, xyz, new_xyz)
    grouped_points = index_points(points, idx)
    grouped_points_norm = grouped_points - new_points.view(B, npoint, 1, -1)
    repeated = new_points.view(B, npoint, 1, -1).repeat(1, 1, nsample, 1)
    return new_xyz, torch.cat([grouped_points_norm, repeated], dim=-1)


class Local_op(nn.Module):
    """(B, S, k, D) → (B, D', S): every group is a short signal of its own in the batch."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv1 = nn.Conv1d(in_channels, out_channels, kernel_size=1, bias=False)
        self.conv2 = nn.Conv1d(out_channels, out_channels, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm1d(out_channels)
        self.bn2 = nn.BatchNorm1d(out_channels)

    def forward(self, x):
        """Two layers at every neighbour, maximum over each group."""
        b, n, s, d = x.size()
        x = x.permute(0, 1, 3, 2)
        x = x.reshape(-1, d, s)
        batch_size, _, _ = x.size()
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.adaptive_max_pool1d(x, 1).view(batch_size, -1)
        return x.reshape(b, n, -1).permute(0, 2, 1)


class SA_Layer(nn.Module):
    """Offset attention on (B, C, N): what attention leaves over goes through the layer and is added."""

    def __init__(self, channels):
        super().__init__()
        self.q_conv = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.k_conv = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.q_conv.weight = self.k_conv.weight
        self.v_conv = nn.Conv1d(channels, channels, 1)
        self.trans_conv = nn.Conv1d(channels, channels, 1)
        self.after_norm = nn.BatchNorm1d(channels)
        self.act = nn.ReLU()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        """Weights by softmax, then normalised along the other axis."""
        x_q = self.q_conv(x).permute(0, 2, 1)
        x_k = self.k_conv(x)
        x_v = self.v_conv(x)
        energy = torch.bmm(x_q, x_k)
        attention = self.softmax(energy)
        attention = attention / (1e-9 + attention.sum(dim=1, keepdim=True))
        x_r = torch.bmm(x_v, attention)
        x_r = self.act(self.after_norm(self.trans_conv(x - x_r)))
        return x + x_r


class Point_Transformer_Last(nn.Module):
    """(B, C, N) → (B, 4C, N): four attention layers, all outputs joined."""

    def __init__(self, channels=256):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, kernel_size=1, bias=False)
        self.conv2 = nn.Conv1d(channels, channels, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm1d(channels)
        self.bn2 = nn.BatchNorm1d(channels)
        self.sa1 = SA_Layer(channels)
        self.sa2 = SA_Layer(channels)
        self.sa3 = SA_Layer(channels)
        self.sa4 = SA_Layer(channels)

    def forward(self, x):
        """Two pointwise layers before the attention."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x1 = self.sa1(x)
        x2 = self.sa2(x1)
        x3 = self.sa3(x2)
        x4 = self.sa4(x3)
        return torch.cat((x1, x2, x3, x4), dim=1)


class Pct(nn.Module):
    """(B, 3, N) → (B, classes)."""

    def __init__(self, classes=40, width=64, npoints=(512, 256), nsample=32, emb_dims=1024, hidden=(512, 256), dropout=0.5):
        super().__init__()
        self.npoints, self.nsample = npoints, nsample
        self.conv1 = nn.Conv1d(3, width, kernel_size=1, bias=False)
        self.conv2 = nn.Conv1d(width, width, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm1d(width)
        self.bn2 = nn.BatchNorm1d(width)
        self.gather_local_0 = Local_op(in_channels=2 * width, out_channels=2 * width)
        self.gather_local_1 = Local_op(in_channels=4 * width, out_channels=4 * width)
        self.pt_last = Point_Transformer_Last(4 * width)
        self.conv_fuse = nn.Sequential(
            nn.Conv1d(20 * width, emb_dims, kernel_size=1, bias=False),
            nn.BatchNorm1d(emb_dims),
            nn.LeakyReLU(negative_slope=0.2),
        )
        self.linear1 = nn.Linear(emb_dims, hidden[0], bias=False)
        self.bn6 = nn.BatchNorm1d(hidden[0])
        self.dp1 = nn.Dropout(p=dropout)
        self.linear2 = nn.Linear(hidden[0], hidden[1])
        self.bn7 = nn.BatchNorm1d(hidden[1])
        self.dp2 = nn.Dropout(p=dropout)
        self.linear3 = nn.Linear(hidden[1], classes)

    def forward(self, x):
        """Two levels of neighbour embedding, attention, maximum over the points, head."""
        xyz = x.permute(0, 2, 1)
        batch_size, _, _ = x.size()
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = x.permute(0, 2, 1)
        new_xyz, new_feature = sample_and_group(npoint=self.npoints[0], nsample=self.nsample, xyz=xyz, points=x)
        feature_0 = self.gather_local_0(new_feature)
        feature = feature_0.permute(0, 2, 1)
        new_xyz, new_feature = sample_and_group(npoint=self.npoints[1], nsample=self.nsample, xyz=new_xyz, points=feature)
        feature_1 = self.gather_local_1(new_feature)

        x = self.pt_last(feature_1)
        x = torch.cat([x, feature_1], dim=1)
        x = self.conv_fuse(x)
        x = F.adaptive_max_pool1d(x, 1).view(batch_size, -1)
        x = self.dp1(F.leaky_relu(self.bn6(self.linear1(x)), negative_slope=0.2))
        x = self.dp2(F.leaky_relu(self.bn7(self.linear2(x)), negative_slope=0.2))
        return self.linear3(x)
