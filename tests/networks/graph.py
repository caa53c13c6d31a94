"""Edge convolutions with their own nearest neighbours."""

import torch
from torch import nn


def knn(x, k):
    """Return the k nearest of each point of (B, C, N), by |x|² − 2xy + |y|²."""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    square = torch.sum(x**2, dim=1, keepdim=True)
    return (-square - inner - square.transpose(2, 1)).topk(k=k, dim=-1)[1]


def edges(x, k):
    """(B, C, N) → (B, 2C, N, k): differences to the neighbours beside the point itself."""
    batch, channels, count = x.shape
    index = (knn(x, k) + torch.arange(batch).view(-1, 1, 1) * count).view(-1)
    flat = x.transpose(2, 1).contiguous().view(batch * count, -1)
    near = flat[index, :].view(batch, count, k, channels)
    own = x.transpose(2, 1).view(batch, count, 1, channels).repeat(1, 1, k, 1)
    return torch.cat((near - own, own), dim=3).permute(0, 3, 1, 2)


class EdgeNetwork(nn.Module):
    """(B, 3, N); two edge convolutions, the second on features, pooled twice."""

    def __init__(self, classes=5, k=6):
        super().__init__()
        self.k = k
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(8), nn.BatchNorm2d(12), nn.BatchNorm1d(16)
        self.conv1 = nn.Sequential(nn.Conv2d(6, 8, 1, bias=False), self.bn1, nn.LeakyReLU(0.2))
        self.conv2 = nn.Sequential(nn.Conv2d(16, 12, 1, bias=False), self.bn2, nn.LeakyReLU(0.2))
        self.conv3 = nn.Sequential(nn.Conv1d(20, 16, 1, bias=False), self.bn3, nn.LeakyReLU(0.2))
        self.fc1, self.bn4, self.dp = nn.Linear(32, 12, bias=False), nn.BatchNorm1d(12), nn.Dropout(0.5)
        self.fc2 = nn.Linear(12, classes)

    def forward(self, x):
        x1 = self.conv1(edges(x, self.k)).max(dim=-1, keepdim=False)[0]
        x2 = self.conv2(edges(x1, self.k)).max(dim=-1, keepdim=False)[0]
        x = self.conv3(torch.cat((x1, x2), dim=1))
        high = nn.functional.adaptive_max_pool1d(x, 1).view(x.shape[0], -1)
        mean = nn.functional.adaptive_avg_pool1d(x, 1).view(x.shape[0], -1)
        x = torch.cat((high, mean), 1)
        return self.fc2(self.dp(torch.nn.functional.leaky_relu(self.bn4(self.fc1(x)), negative_slope=0.2)))


class DistanceWeights(nn.Module):
    """(B, N, 3); cdist, topk, gather with a repeated index, neighbours weighted by their inverse distance."""

    def __init__(self, classes=5, width=12, k=4):
        super().__init__()
        self.k = k
        self.first, self.second = nn.Linear(3, width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        distance, index = torch.cdist(x, x).topk(self.k + 1, dim=-1, largest=False)
        weight = 1 / (distance[..., 1:] + 0.1)
        weight = weight / weight.sum(-1, keepdim=True)
        f = self.first(x).relu()
        wide = f.unsqueeze(1).expand(-1, x.size(1), -1, -1)
        near = torch.gather(wide, 2, index[..., 1:, None].expand(-1, -1, -1, f.size(-1)))
        f = self.second(torch.cat([f, (near * weight.unsqueeze(-1)).sum(2)], -1)).relu()
        return self.head(f.max(1)[0])
