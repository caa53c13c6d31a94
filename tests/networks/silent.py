"""Networks that were once revised into something else, with no word about it."""

import torch
from torch import nn

from networks.order_dependent import nearest


class KernelPoints(nn.Module):
    """(B, N, 3); correlations of neighbours with a learned set of points, as KPConv has them."""

    def __init__(self, classes=5, kernels=8, width=6, repeated=False):
        super().__init__()
        self.kernel_points = nn.Parameter(torch.randn(kernels, 3) * 0.3)
        self.weights = nn.Parameter(torch.randn(kernels, width))
        self.head, self.repeated = nn.Linear(width, classes), repeated

    def forward(self, xyz):
        near = xyz[:, None] - xyz[:, :, None]  # (B, N, N, 3)
        near = near.unsqueeze(3)
        if self.repeated:
            near = near.expand(-1, -1, -1, len(self.kernel_points), -1)
        distance = (near - self.kernel_points).norm(dim=-1)
        influence = torch.relu(1 - distance / 0.5).sum(2)
        return self.head((influence @ self.weights).amax(1))


def knn(xyz, k):
    """Return the neighbours and where they are; distances leave torch."""
    points = torch.from_numpy(xyz.detach().numpy())
    index = torch.cdist(points, points).topk(k, largest=False)[1]
    return torch.stack([cloud[i] for cloud, i in zip(xyz, index, strict=True)]), index


def knn_point(k, xyz):
    """Return where the neighbours are, without quaternions."""
    points = torch.from_numpy(xyz.detach().numpy())
    return torch.cdist(points, points).topk(k, largest=False)[1]


class Grouped(nn.Module):
    """(B, N, 3); differences to neighbours."""

    def __init__(self, function, classes=5):
        super().__init__()
        self.function = function
        self.local, self.norm, self.head = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, classes)

    def forward(self, xyz):
        if self.function == "knn":
            near, _ = knn(xyz, 4)
        else:
            index = knn_point(4, xyz)
            near = torch.stack([cloud[i] for cloud, i in zip(xyz, index, strict=True)])
        x = self.local(near - xyz.unsqueeze(2)).amax(2)
        return self.head(torch.relu(self.norm(x.transpose(1, 2))).amax(2))


class Coded(nn.Module):
    """(B, 3, N) → a code, and the cloud that is decoded from it (B, 3, N)."""

    def __init__(self, width=12, count=24):
        super().__init__()
        self.first, self.second = nn.Conv1d(6, 16, 1), nn.Conv1d(16, width, 1)
        self.norm = nn.BatchNorm1d(16)
        self.hidden, self.out, self.count = nn.Linear(width, 16), nn.Linear(16, 3 * count), count

    def encode(self, x):
        x = torch.cat([x, nearest(x) - x], 1)
        return self.second(torch.relu(self.norm(self.first(x)))).max(-1)[0]

    def forward(self, x):
        code = self.encode(x)
        return code, self.out(torch.relu(self.hidden(code))).view(-1, 3, self.count)


class Labelled(Coded):
    """(B, 3, N) → logits and the decoded cloud."""

    def __init__(self, classes=5):
        super().__init__()
        self.classify = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, classes))

    def forward(self, x):
        code, cloud = super().forward(x)
        return self.classify(code), cloud


def my_fps(points, m):
    """(B, N, 3) → (B, m), from the first point in storage."""
    chosen = [torch.zeros(len(points), dtype=torch.long)]
    nearest = None
    for _ in range(m - 1):
        here = torch.stack([cloud[i] for cloud, i in zip(points, chosen[-1], strict=True)])
        distance = (points - here.unsqueeze(1)).norm(dim=-1)
        nearest = distance if nearest is None else torch.minimum(nearest, distance)
        chosen.append(nearest.argmax(-1))
    return torch.stack(chosen, 1)


def ball(p, q, r, k):
    """Return the first k points in storage within the radius r, padded with the first of them."""
    inside = torch.cdist(q, p) <= r
    order = torch.arange(p.shape[1]).expand(inside.shape)
    index = torch.where(inside, order, p.shape[1]).sort(dim=-1)[0][..., :k]
    return torch.where(index == p.shape[1], index[..., :1], index)


def around(p, q, k):
    """Return the k nearest points of p to those of q."""
    return torch.cdist(q, p).topk(k, largest=False)[1]


def largest(x, count):
    """Choose points, but none of the known ways."""
    return x.norm(dim=-1).topk(count)[1]


def pick(x, index):
    """(B, N, C) and (B, …) → (B, …, C)."""
    return torch.stack([cloud[i] for cloud, i in zip(x, index, strict=True)])


class OtherNames(nn.Module):
    """(B, N, 3); samples and groups by functions that nobody knows by name."""

    def __init__(self, classes=5, choose=None):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(3, 8), nn.Linear(11, 12), nn.BatchNorm1d(12)
        self.head, self.choose = nn.Linear(12, classes), choose

    def forward(self, xyz):
        centres = pick(xyz, largest(xyz, 8) if self.choose == "largest" else my_fps(xyz, 8))
        near = pick(xyz, ball(xyz, centres, 0.9, 4)) - centres.unsqueeze(2)
        x = torch.relu(self.first(near)).amax(2)
        x = self.second(torch.cat([pick(x, around(centres, centres, 3)).mean(2), centres], -1))
        return self.head(torch.relu(self.norm(x.transpose(1, 2))).amax(2))
