"""PointMLP (Ma et al., 2022): groups with a learned affine normalisation, residual blocks before and after pooling."""

import torch
import torch.nn.functional as F
from torch import nn

from experiments.styles.grouping import index_points, knn_point


def farthest_point_sample(xyz, npoint):
    """(B, N, 3) → indices (B, npoint); the first one is random."""
    device = xyz.device
    B, N, _ = xyz.shape
    centroids = torch.zeros(B, npoint, dtype=torch.long).to(device)
    distance = torch.ones(B, N, dtype=xyz.dtype).to(device) * 1e10
    farthest = torch.randint(0, N, (B,), dtype=torch.long).to(device)
    batch_indices = torch.arange(B, dtype=torch.long).to(device)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[batch_indices, farthest, :].view(B, 1, 3)
        dist = torch.sum((xyz - centroid) ** 2, -1)
        distance = torch.min(distance, dist)
        farthest = torch.max(distance, -1)[1]
    return centroids


class LocalGrouper(nn.Module):
    """(B, N, 3), (B, N, D) → centres (B, S, 3) and groups (B, S, k, 2D [+ 3])."""

    def __init__(self, channel, groups, kneighbors, use_xyz=False, normalize="anchor"):
        super().__init__()
        self.groups, self.kneighbors, self.use_xyz, self.normalize = groups, kneighbors, use_xyz, normalize
        add_channel = 3 if use_xyz else 0
        self.affine_alpha = nn.Parameter(torch.ones([1, 1, 1, channel + add_channel]))
        self.affine_beta = nn.Parameter(torch.zeros([1, 1, 1, channel + add_channel]))

    def forward(self, xyz, points):
        """Differences to the centre (or the group's mean), divided by their spread over the cloud."""
        B = xyz.shape[0]
        S = self.groups
        xyz = xyz.contiguous()
        fps_idx = farthest_point_sample(xyz, self.groups)
        new_xyz = index_points(xyz, fps_idx)
        new_points = index_points(points, fps_idx)
        idx = knn_point(self.kneighbors, xyz, new_xyz)
        grouped_points = index_points(points, idx)
        if self.use_xyz:
            grouped_points = torch.cat([grouped_points, index_points(xyz, idx)], dim=-1)
        if self.normalize == "center":
            mean = torch.mean(grouped_points, dim=2, keepdim=True)
        else:
            mean = torch.cat([new_points, new_xyz], dim=-1) if self.use_xyz else new_points
            mean = mean.unsqueeze(dim=-2)
        std = torch.std((grouped_points - mean).reshape(B, -1), dim=-1, keepdim=True).unsqueeze(dim=-1).unsqueeze(dim=-1)
        grouped_points = (grouped_points - mean) / (std + 1e-5)
        grouped_points = self.affine_alpha * grouped_points + self.affine_beta
        repeated = new_points.view(B, S, 1, -1).repeat(1, 1, self.kneighbors, 1)
        return new_xyz, torch.cat([grouped_points, repeated], dim=-1)


class ConvBNReLU1D(nn.Module):
    """A pointwise layer on (B, D, N)."""

    def __init__(self, in_channels, out_channels, kernel_size=1, bias=False):
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.net = nn.Sequential(
            nn.Conv1d(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size, bias=bias),
            nn.BatchNorm1d(out_channels),
            self.act,
        )

    def forward(self, x):
        """Convolution, batch-norm, ReLU."""
        return self.net(x)


class ConvBNReLURes1D(nn.Module):
    """A residual block of two pointwise layers on (B, D, N)."""

    def __init__(self, channel, kernel_size=1, res_expansion=1.0, bias=False):
        super().__init__()
        middle = int(channel * res_expansion)
        self.act = nn.ReLU(inplace=True)
        self.net1 = nn.Sequential(
            nn.Conv1d(in_channels=channel, out_channels=middle, kernel_size=kernel_size, bias=bias),
            nn.BatchNorm1d(middle),
            self.act,
        )
        self.net2 = nn.Sequential(
            nn.Conv1d(in_channels=middle, out_channels=channel, kernel_size=kernel_size, bias=bias),
            nn.BatchNorm1d(channel),
        )

    def forward(self, x):
        """The activation comes after the sum."""
        return self.act(self.net2(self.net1(x)) + x)


class PreExtraction(nn.Module):
    """Groups (B, S, k, D) → (B, D', S): residual blocks at every neighbour, then the maximum over each group."""

    def __init__(self, channels, out_channels, blocks=1, res_expansion=1.0, bias=False, use_xyz=False):
        super().__init__()
        in_channels = 3 + 2 * channels if use_xyz else 2 * channels
        self.transfer = ConvBNReLU1D(in_channels, out_channels, bias=bias)
        operation = [ConvBNReLURes1D(out_channels, res_expansion=res_expansion, bias=bias) for _ in range(blocks)]
        self.operation = nn.Sequential(*operation)

    def forward(self, x):
        """Groups and batch are one axis until the maximum is taken."""
        b, n, s, d = x.size()
        x = x.permute(0, 1, 3, 2)
        x = x.reshape(-1, d, s)
        x = self.transfer(x)
        batch_size, _, _ = x.size()
        x = self.operation(x)
        x = F.adaptive_max_pool1d(x, 1).view(batch_size, -1)
        return x.reshape(b, n, -1).permute(0, 2, 1)


class PosExtraction(nn.Module):
    """(B, D, S) → (B, D, S): residual blocks at every centre."""

    def __init__(self, channels, blocks=1, res_expansion=1.0, bias=False):
        super().__init__()
        operation = [ConvBNReLURes1D(channels, res_expansion=res_expansion, bias=bias) for _ in range(blocks)]
        self.operation = nn.Sequential(*operation)

    def forward(self, x):
        """One block after the other."""
        return self.operation(x)


class ResidualMLP(nn.Module):
    """(B, 3, N) → (B, classes)."""

    def __init__(
        self,
        classes=40,
        points=1024,
        embed_dim=64,
        res_expansion=1.0,
        dim_expansion=(2, 2, 2, 2),
        pre_blocks=(2, 2, 2, 2),
        pos_blocks=(2, 2, 2, 2),
        k_neighbors=(24, 24, 24, 24),
        reducers=(2, 2, 2, 2),
        hidden=(512, 256),
        use_xyz=False,
        normalize="anchor",
        bias=False,
    ):
        super().__init__()
        self.stages = len(pre_blocks)
        self.embedding = ConvBNReLU1D(3, embed_dim, bias=bias)
        self.local_grouper_list = nn.ModuleList()
        self.pre_blocks_list = nn.ModuleList()
        self.pos_blocks_list = nn.ModuleList()
        last_channel, anchor_points = embed_dim, points
        for i in range(self.stages):
            out_channel = last_channel * dim_expansion[i]
            anchor_points = anchor_points // reducers[i]
            self.local_grouper_list.append(LocalGrouper(last_channel, anchor_points, k_neighbors[i], use_xyz, normalize))
            self.pre_blocks_list.append(
                PreExtraction(last_channel, out_channel, pre_blocks[i], res_expansion, bias=bias, use_xyz=use_xyz)
            )
            self.pos_blocks_list.append(PosExtraction(out_channel, pos_blocks[i], res_expansion, bias=bias))
            last_channel = out_channel
        self.act = nn.ReLU(inplace=True)
        self.classifier = nn.Sequential(
            nn.Linear(last_channel, hidden[0]),
            nn.BatchNorm1d(hidden[0]),
            self.act,
            nn.Dropout(0.5),
            nn.Linear(hidden[0], hidden[1]),
            nn.BatchNorm1d(hidden[1]),
            self.act,
            nn.Dropout(0.5),
            nn.Linear(hidden[1], classes),
        )

    def forward(self, x):
        """Each stage halves the points and doubles the channels."""
        xyz = x.permute(0, 2, 1)
        x = self.embedding(x)
        for i in range(self.stages):
            xyz, x = self.local_grouper_list[i](xyz, x.permute(0, 2, 1))
            x = self.pre_blocks_list[i](x)
            x = self.pos_blocks_list[i](x)
        x = F.adaptive_max_pool1d(x, 1).squeeze(dim=-1)
        return self.classifier(x)
