"""Networks that depend on the order of the points, by construction. The line at fault is marked in each."""

import torch
from torch import nn


def nearest(x):
    """Return the nearest other point of each point, (B, 3, N)."""
    index = (x.unsqueeze(3) - x.unsqueeze(2)).norm(dim=1).topk(2, largest=False)[1][..., 1]
    return x.gather(2, index.unsqueeze(1).expand(-1, 3, -1))


class Base(nn.Module):
    """(B, 3, N); centred points beside raw ones, something that depends on their order, a pool and a head."""

    kernel = 1

    def __init__(self, classes=5, points=24):
        super().__init__()
        self.first, self.norm = nn.Conv1d(6, 8, 1), nn.BatchNorm1d(8)
        self.second = nn.Conv1d(8, 12, self.kernel)
        self.head = nn.Linear(12, classes)
        self.flat = nn.Linear(8 * points, 12)

    def local(self, x):
        near = nearest(x)
        return torch.relu(self.norm(self.first(torch.cat([x, near - x], 1))))

    def pooled(self, x):
        return self.head(self.second(x).max(-1)[0])


class FirstPoints(Base):
    def forward(self, x):
        x = self.local(x)
        return self.pooled(x[:, :, :8])  # wrong


class RandomPoints(Base):
    """As RandLA-Net samples."""

    def forward(self, x):
        x = self.local(x)
        keep = torch.randperm(x.shape[-1])[: x.shape[-1] // 4]
        return self.pooled(x[:, :, keep])  # wrong


class WideKernel(Base):
    kernel = 3

    def forward(self, x):
        x = self.local(x)
        return self.head(self.second(x).max(-1)[0])  # wrong in second


class Flattened(Base):
    def forward(self, x):
        x = self.local(x)
        return self.head(self.flat(x.flatten(1)))  # wrong


class StridedPool(Base):
    def forward(self, x):
        x = torch.max_pool1d(self.local(x), 4)  # wrong
        return self.head(self.second(x).mean(-1))


class Rolled(Base):
    def forward(self, x):
        x = self.local(x)
        return self.pooled(x - x.roll(1, -1))  # wrong


class Inside(Base):
    """It happens in a submodule."""

    class Keep(nn.Module):
        def forward(self, x):
            return x[:, :, ::2]  # wrong in keep

    def __init__(self):
        super().__init__()
        self.keep = self.Keep()

    def forward(self, x):
        return self.pooled(self.keep(self.local(x)))


class Harmless(Base):
    """The order of the points is lost on the way, and does not reach the output."""

    def forward(self, x):
        x = self.local(x)
        x = x[:, :, torch.arange(x.shape[-1]).flip(0)]
        return self.pooled(x.view(len(x), -1).view(x.shape))


class ShallowPointNet(nn.Module):
    """(B, 3, N); two layers, no normalisation: by the paper's rules the farthest point always wins."""

    def __init__(self, classes=5):
        super().__init__()
        self.first, self.second, self.head = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 12, 1), nn.Linear(12, classes)

    def forward(self, x):
        return self.head(self.second(torch.relu(self.first(x))).max(-1)[0])


class WithTable(ShallowPointNet):
    """Returns a learned table, which depends on no cloud in the original either."""

    def __init__(self):
        super().__init__()
        self.norm, self.table = nn.BatchNorm1d(8), nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        near = nearest(x)
        edges = torch.relu(self.norm(self.first(x)) + self.first(near - x))
        return self.head(self.second(edges).max(-1)[0]), self.table.expand(len(x), 3, 4)
