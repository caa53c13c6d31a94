"""What public networks do, each in a few lines: loops over clouds, packed lists, weight banks, grids, trees, held functions."""

import numpy as np
import torch
from torch import nn

from networks.order_dependent import Base


class RunningSums(Base):
    """Sums along the points: behind a maximum, on a cloud off the origin, they look as if they were in no order."""

    def forward(self, x):
        return self.pooled(self.local(x).cumsum(-1))


class KernelPoints(nn.Module):
    """(N, 3) points, their neighbours and features: correlations with fixed points, as KPConv has them."""

    def __init__(self, channels, width, kernels=5):
        super().__init__()
        self.kernel_points = nn.Parameter(torch.randn(kernels, 3) * 0.4, requires_grad=False)
        self.weights = nn.Parameter(torch.randn(kernels, channels, width) / 2)

    def forward(self, xyz, index, x):
        offset = (xyz[index] - xyz.unsqueeze(1)).unsqueeze(2)
        influence = torch.relu(1 - (offset - self.kernel_points).pow(2).sum(-1).sqrt())
        return torch.einsum("nkp,nkc,pco->no", influence, x[index], self.weights)


class OneCloud(nn.Module):
    """(N, 3) → (1, classes); the first features are ones."""

    def __init__(self, classes=5):
        super().__init__()
        self.conv, self.head = KernelPoints(1, 8), nn.Linear(8, classes)

    def forward(self, xyz):
        index = torch.cdist(xyz, xyz).topk(6, largest=False)[1]
        x = torch.ones_like(xyz[:, :1])
        return self.head(torch.relu(self.conv(xyz, index, x)).mean(0, keepdim=True))


class CloudByCloud(nn.Module):
    """(B, N, 3); the network of one cloud in a loop."""

    def __init__(self):
        super().__init__()
        self.net = OneCloud()

    def forward(self, xyz):
        return torch.cat([self.net(cloud) for cloud in xyz])


class Packed(nn.Module):
    """(N, 3) points of all clouds, and where each cloud ends; `local` needs coordinates, of points or of pairs of them."""

    def __init__(self, pairs=False, classes=5):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
        self.head, self.pairs = nn.Linear(8, classes), pairs

    def forward(self, xyz, ends):
        x = self.local(torch.cat([xyz, xyz])).unflatten(0, (2, -1)).sum(0) if self.pairs else self.local(xyz)
        return self.head(torch.stack([part.amax(0) for part in x.tensor_split(ends.tolist()[:-1])]))


class WeightBank(nn.Module):
    """(B, 3, N); one matrix for neighbours and differences, and the upper half of it for the centre, as PAConv has it."""

    def __init__(self, classes=5, width=8):
        super().__init__()
        self.bank = nn.Parameter(torch.randn(6, width))
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, x):
        x = x.transpose(1, 2)
        both = x.repeat(1, 1, 2) @ self.bank
        centre = x @ self.bank[: x.size(2)]
        index = torch.cdist(x, x).topk(4, largest=False)[1]
        near = both[torch.arange(len(x)).view(-1, 1, 1), index] - centre.unsqueeze(2)
        return self.head(torch.relu(self.norm(near.amax(2).transpose(1, 2))).amax(-1))


class Relations(nn.Module):
    """(B, 3, N); a second stage weighs coordinates and real features side by side, channel by channel, as RS-CNN does."""

    def __init__(self, classes=5, width=4):
        super().__init__()
        self.raise_, self.first = nn.Conv1d(3, width, 1), nn.Conv1d(3, width, 1)
        self.hidden, self.relation = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 3 + width, 1)
        self.norm, self.act = nn.BatchNorm1d(3 + width), nn.ReLU(inplace=True)
        self.last, self.head = nn.Conv1d(3 + width, 8, 1), nn.Linear(8, classes)

    def forward(self, x):
        offset = x - x.mean(-1, keepdim=True)
        real = self.raise_(x) * self.first(offset)
        weight = self.relation(torch.relu(self.hidden(offset)))
        x = self.act(self.norm(weight * torch.cat([x, real], 1)))
        return self.head(self.last(x).amax(-1))


class GatedOffsets(nn.Module):
    """(B, N, 3); offsets of the points, each coordinate with a gate of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.offset, self.gate = nn.Linear(3, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, xyz):
        x = torch.relu(self.first(xyz - xyz.mean(1, keepdim=True)))
        return xyz + self.offset(x) * torch.sigmoid(self.gate(x.amax(1, keepdim=True)))


class Tree(nn.Module):
    """(B, 3, N); nodes of a tree, the last of which are points, coordinate by coordinate, as TopNet has them."""

    def __init__(self, children=4, width=6):
        super().__init__()
        self.encoder, self.root = nn.Conv1d(3, 8, 1), nn.Linear(8, width * children)
        self.leaves, self.width = nn.Conv1d(width + 8, 3 * children, 1), width

    def forward(self, x):
        code = torch.relu(self.encoder(x)).amax(-1)
        nodes = self.root(code).reshape(len(x), self.width, -1)
        nodes = torch.cat([nodes, code.unsqueeze(-1).expand(-1, -1, nodes.shape[2])], 1)
        return torch.tanh(self.leaves(nodes).reshape(len(x), 3, -1))


class Patches(nn.Module):
    """(B, 3, N) → (B, M, 3); patches of a plane are folded by a decoder each, as in AtlasNet."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(3, 8, 1)
        self.decoder = nn.ModuleList([Fold(), Fold()])

    def forward(self, x):
        code = torch.relu(self.encoder(x)).amax(-1)
        grid = torch.stack(torch.meshgrid(torch.arange(3.0), torch.arange(3.0), indexing="ij")).flatten(1).to(x.dtype)
        given = torch.cat([grid.expand(len(x), -1, -1), code.unsqueeze(-1).expand(-1, -1, 9)], 1)
        return torch.cat([decoder(given) for decoder in self.decoder], 2).transpose(1, 2).contiguous()


class Fold(nn.Module):
    """(B, 10, M) → (B, 3, M)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(10, 8, 1), nn.Conv1d(8, 3, 1)

    def forward(self, x):
        return torch.tanh(self.second(torch.relu(self.first(x))))


def farthest_point_sample(xyz, npoint):
    """Start at the first point."""
    chosen, apart = [torch.zeros(len(xyz), dtype=torch.long)], torch.full(xyz.shape[:2], 1e10, dtype=xyz.dtype)
    for _ in range(npoint - 1):
        last = xyz[torch.arange(len(xyz)), chosen[-1]].unsqueeze(1)
        apart = torch.minimum(apart, (xyz - last).pow(2).sum(-1))
        chosen.append(apart.argmax(-1))
    return torch.stack(chosen, 1)


class operators:
    """What is compiled elsewhere, held by a class."""

    @staticmethod
    def sample(xyz, npoint):
        return farthest_point_sample(xyz, npoint)


class HeldSampling(nn.Module):
    """(B, N, 3); differences to a few points that a function of a class chooses."""

    def __init__(self, classes=5):
        super().__init__()
        self.first, self.head = nn.Linear(3, 8), nn.Linear(8, classes)

    def forward(self, xyz):
        centre = xyz[torch.arange(len(xyz)).unsqueeze(1), operators.sample(xyz, 4)]
        return self.head(self.first(xyz.unsqueeze(1) - centre.unsqueeze(2)).amax(2).mean(1))


def knn_point(nsample, xyz, new_xyz):
    """Return neighbours in no order."""
    return torch.cdist(new_xyz, xyz).topk(nsample, largest=False, sorted=False)[1]


class Umbrellas(nn.Module):
    """(B, N, 3) → (B, N, 8); neighbours, the point itself left out, in the order of their angles about z, as in RepSurf."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Linear(3, 8)

    def forward(self, xyz):
        index = knn_point(5, xyz, xyz)
        near = xyz[torch.arange(len(xyz)).view(-1, 1, 1), index][:, :, 1:] - xyz.unsqueeze(2)
        order = torch.atan2(near[..., 1], near[..., 0]).argsort(-1)
        near = near.gather(2, order.unsqueeze(-1).expand(-1, -1, -1, 3))
        return self.mlp(torch.cross(near, near.roll(-1, 2), dim=-1)).abs().sum(2)


class Surfaces(nn.Module):
    """(B, N, 3)."""

    def __init__(self, classes=5):
        super().__init__()
        self.surface, self.head = Umbrellas(), nn.Linear(8, classes)

    def forward(self, xyz):
        return self.head(self.surface(xyz).amax(1))


class Masked(nn.Module):
    """(B, N, 3) → a loss; tokens of some points are dropped at random, by numpy, and their points predicted (Point-MAE)."""

    def __init__(self, width=8):
        super().__init__()
        self.embed, self.place, self.mix = nn.Linear(3, width), nn.Linear(3, width), nn.Linear(width, width)
        self.token, self.predict = nn.Parameter(torch.randn(1, 1, width)), nn.Linear(width, 6)

    def forward(self, xyz):
        index = torch.cdist(xyz, xyz).topk(3, largest=False)[1]
        near = xyz[torch.arange(len(xyz)).view(-1, 1, 1), index] - xyz.unsqueeze(2)
        half = xyz.shape[1] // 2
        far = xyz.norm(dim=-1).argsort(-1)[:, np.random.permutation(xyz.shape[1])]  # noqa: NPY002
        near, xyz = near.gather(1, far[..., None, None].expand_as(near)), xyz.gather(1, far[..., None].expand_as(xyz))
        seen = torch.relu(self.embed(near[:, :half])).amax(2)
        tokens = torch.cat([seen, self.token.expand(len(xyz), half, -1)], 1) + self.place(xyz)
        tokens = tokens + self.mix(torch.relu(tokens)).mean(1, keepdim=True)
        found = self.predict(tokens[:, half:]).reshape(-1, 2, 3)
        return torch.cdist(found, near[:, half:].reshape(-1, 3, 3)).amin(2).mean()
