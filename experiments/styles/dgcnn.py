"""DGCNN (Wang et al., 2019) in two of the spellings that public code uses."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn


def knn(x, k):
    """(B, C, N) → indices (B, N, k) of the nearest points, by −‖x_i‖² + 2⟨x_i, x_j⟩ − ‖x_j‖²."""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    pairwise_distance = -xx - inner - xx.transpose(2, 1)
    return pairwise_distance.topk(k=k, dim=-1)[1]


def get_graph_feature(x, k=20, idx=None):
    """(B, C, N) → edges (B, 2C, N, k): neighbours are rows of the flattened batch, centres are repeated."""
    batch_size, num_points = x.size(0), x.size(2)
    x = x.view(batch_size, -1, num_points)
    if idx is None:
        idx = knn(x, k=k)
    idx_base = torch.arange(0, batch_size, device=x.device).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).view(-1)

    num_dims = x.size(1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(batch_size * num_points, -1)[idx, :]
    feature = feature.view(batch_size, num_points, k, num_dims)
    x = x.view(batch_size, num_points, 1, num_dims).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class DGCNN(nn.Module):
    """(B, 3, N) → (B, classes). Advanced indexing, repeat, cat and Sequential blocks of Conv2d."""

    def __init__(self, classes=40, k=20, widths=(64, 64, 128, 256), emb_dims=1024, hidden=(512, 256), dropout=0.5):
        super().__init__()
        self.k = k
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.bn2 = nn.BatchNorm2d(widths[1])
        self.bn3 = nn.BatchNorm2d(widths[2])
        self.bn4 = nn.BatchNorm2d(widths[3])
        self.bn5 = nn.BatchNorm1d(emb_dims)
        self.conv1 = nn.Sequential(
            nn.Conv2d(6, widths[0], kernel_size=1, bias=False), self.bn1, nn.LeakyReLU(negative_slope=0.2)
        )
        self.conv2 = nn.Sequential(
            nn.Conv2d(widths[0] * 2, widths[1], kernel_size=1, bias=False), self.bn2, nn.LeakyReLU(negative_slope=0.2)
        )
        self.conv3 = nn.Sequential(
            nn.Conv2d(widths[1] * 2, widths[2], kernel_size=1, bias=False), self.bn3, nn.LeakyReLU(negative_slope=0.2)
        )
        self.conv4 = nn.Sequential(
            nn.Conv2d(widths[2] * 2, widths[3], kernel_size=1, bias=False), self.bn4, nn.LeakyReLU(negative_slope=0.2)
        )
        self.conv5 = nn.Sequential(
            nn.Conv1d(sum(widths), emb_dims, kernel_size=1, bias=False), self.bn5, nn.LeakyReLU(negative_slope=0.2)
        )
        self.linear1 = nn.Linear(emb_dims * 2, hidden[0], bias=False)
        self.bn6 = nn.BatchNorm1d(hidden[0])
        self.dp1 = nn.Dropout(p=dropout)
        self.linear2 = nn.Linear(hidden[0], hidden[1])
        self.bn7 = nn.BatchNorm1d(hidden[1])
        self.dp2 = nn.Dropout(p=dropout)
        self.linear3 = nn.Linear(hidden[1], classes)

    def forward(self, x):
        """Four edge convolutions on graphs of their own features, max and mean pooling, head."""
        batch_size = x.size(0)
        x = get_graph_feature(x, k=self.k)
        x = self.conv1(x)
        x1 = x.max(dim=-1, keepdim=False)[0]

        x = get_graph_feature(x1, k=self.k)
        x = self.conv2(x)
        x2 = x.max(dim=-1, keepdim=False)[0]

        x = get_graph_feature(x2, k=self.k)
        x = self.conv3(x)
        x3 = x.max(dim=-1, keepdim=False)[0]

        x = get_graph_feature(x3, k=self.k)
        x = self.conv4(x)
        x4 = x.max(dim=-1, keepdim=False)[0]

        x = self.conv5(torch.cat((x1, x2, x3, x4), dim=1))
        x1 = F.adaptive_max_pool1d(x, 1).view(batch_size, -1)
        x2 = F.adaptive_avg_pool1d(x, 1).view(batch_size, -1)
        x = torch.cat((x1, x2), 1)

        x = self.dp1(F.leaky_relu(self.bn6(self.linear1(x)), negative_slope=0.2))
        x = self.dp2(F.leaky_relu(self.bn7(self.linear2(x)), negative_slope=0.2))
        return self.linear3(x)


class EdgeConv(nn.Module):
    """(B, C, N) → (B, C', N). Neighbours by `torch.gather` from an expanded tensor with expanded indices."""

    def __init__(self, in_channels, channels, k):
        super().__init__()
        self.k = k
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        last = 2 * in_channels
        for width in channels:
            self.convs.append(nn.Conv2d(last, width, 1, bias=False))
            self.norms.append(nn.BatchNorm2d(width))
            last = width

    def forward(self, x):
        """Edges [f_j − f_i, f_i] through the 1×1 convolutions, maximum over the neighbours."""
        points = x.transpose(1, 2)
        nearest = torch.cdist(points, points).topk(self.k, dim=-1, largest=False)[1]
        centre = x.unsqueeze(-1).expand(-1, -1, -1, self.k)
        index = nearest.unsqueeze(1).expand(-1, x.size(1), -1, -1)
        edges = torch.cat([torch.gather(centre, 2, index) - centre, centre], dim=1)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            edges = F.leaky_relu(norm(conv(edges)), 0.2)
        return edges.amax(dim=-1)


class GatherDGCNN(nn.Module):
    """(B, N, 3) → (B, classes). Edge convolutions in a ModuleList, a head in a Sequential."""

    def __init__(self, classes=40, k=20, widths=(64, 64, 128, 256), emb_dims=1024, hidden=(512, 256), dropout=0.5):
        super().__init__()
        channels = (3, *widths)
        self.blocks = nn.ModuleList(EdgeConv(a, (b,), k) for a, b in pairwise(channels))
        self.embed, self.norm = nn.Conv1d(sum(widths), emb_dims, 1, bias=False), nn.BatchNorm1d(emb_dims)
        self.head = nn.Sequential(
            nn.Linear(2 * emb_dims, hidden[0], bias=False),
            nn.BatchNorm1d(hidden[0]),
            nn.LeakyReLU(0.2),
            nn.Dropout(dropout),
            nn.Linear(hidden[0], hidden[1]),
            nn.BatchNorm1d(hidden[1]),
            nn.LeakyReLU(0.2),
            nn.Dropout(dropout),
            nn.Linear(hidden[1], classes),
        )

    def forward(self, points):
        """Every block sees the output of the one before; all outputs are joined."""
        x, outputs = points.transpose(1, 2), []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        x = F.leaky_relu(self.norm(self.embed(torch.cat(outputs, dim=1))), 0.2)
        return self.head(torch.cat([x.max(dim=-1)[0], x.mean(dim=-1)], dim=-1))
