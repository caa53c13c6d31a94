"""Networks of PyTorch Geometric in small: lists of points (N, 3) and a batch vector (N,).

Its operators on points are those of pyg-lib, which need not be installed: plain ones take their place.
"""

import math
from itertools import pairwise

import torch
import torch_geometric.typing
from torch import nn
from torch_geometric.nn import (
    MLP,
    DynamicEdgeConv,
    EdgeConv,
    GATConv,
    MessagePassing,
    PointNetConv,
    PointTransformerConv,
    fps,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
    knn_graph,
    knn_interpolate,
    radius,
    radius_graph,
)


def runs(pointer, x):
    return list(pairwise([0, len(x)] if pointer is None else pointer.tolist()))


def plain_knn(x, y, ptr_x, ptr_y, k, cosine, num_workers):
    found = []
    for (a, b), (c, d) in zip(runs(ptr_x, x), runs(ptr_y, y), strict=True):
        index = torch.cdist(y[c:d], x[a:b]).topk(min(k, b - a), largest=False)[1]
        found.append(torch.stack([torch.arange(c, d)[:, None].expand_as(index), index + a]).flatten(1))
    return torch.cat(found, 1)


def plain_radius(x, y, ptr_x, ptr_y, r, most, num_workers, ignore_same_index):
    """The first in storage, as the original has it."""
    found = []
    for (a, b), (c, d) in zip(runs(ptr_x, x), runs(ptr_y, y), strict=True):
        near = torch.cdist(y[c:d], x[a:b]) <= r
        if ignore_same_index:
            near &= ~torch.eye(d - c, b - a, dtype=torch.bool)
        query, point = (near & (near.cumsum(1) <= most)).nonzero(as_tuple=True)
        found.append(torch.stack([query + c, point + a]))
    return torch.cat(found, 1)


def plain_fps(x, ptr, ratio, random_start):
    """From the first point on."""
    found = []
    for a, b in runs(ptr, x):
        chosen, apart = [0], (x[a:b] - x[a]).norm(dim=-1)
        while len(chosen) < math.ceil(ratio * (b - a)):
            chosen.append(int(apart.argmax()))
            apart = torch.minimum(apart, (x[a:b] - x[a + chosen[-1]]).norm(dim=-1))
        found.append(torch.tensor(chosen) + a)
    return torch.cat(found)


if not torch_geometric.typing.WITH_KNN:
    library = torch.library.Library("pyg", "FRAGMENT")
    pairs = "Tensor x, Tensor y, Tensor? ptr_x, Tensor? ptr_y"
    library.define(f"knn({pairs}, int k, bool cosine, int num_workers) -> Tensor")
    library.define(f"radius({pairs}, float r, int most, int num_workers, bool ignore_same_index) -> Tensor")
    library.define("fps(Tensor x, Tensor ptr, float ratio, bool random_start) -> Tensor")
    for name, function in (("knn", plain_knn), ("radius", plain_radius), ("fps", plain_fps)):
        library.impl(name, function, "CompositeExplicitAutograd")
    for name in ("WITH_KNN", "WITH_RADIUS", "WITH_FPS"):
        setattr(torch_geometric.typing, name, True)


class DynamicEdges(nn.Module):
    """DGCNN."""

    def __init__(self, classes=5, k=5):
        super().__init__()
        self.first = DynamicEdgeConv(MLP([6, 8, 8]), k, "max")
        self.second = DynamicEdgeConv(MLP([16, 8]), k, "mean")
        self.join, self.head = nn.Linear(16, 8), MLP([8, 8, classes], norm=None, dropout=0.5)

    def forward(self, pos, batch):
        a = self.first(pos, batch)
        b = self.second(a, batch)
        return self.head(global_max_pool(self.join(torch.cat([a, b], 1)), batch))


class StaticEdges(nn.Module):
    """EdgeConv with sums, on a graph by radius; attention on one by k-NN."""

    def __init__(self, classes=5):
        super().__init__()
        self.edges, self.attention = EdgeConv(MLP([6, 8, 8]), aggr="add"), GATConv(8, 4, heads=2)
        self.head = nn.Linear(8, classes)

    def forward(self, pos, batch):
        x = self.edges(pos, radius_graph(pos, r=0.9, batch=batch, loop=True))
        x = self.attention(x, knn_graph(pos, k=4, batch=batch)).relu()
        return self.head(global_add_pool(x, batch))


class Abstraction(nn.Module):
    """Sampling, a ball query, PointNetConv."""

    def __init__(self, ratio, r, mlp):
        super().__init__()
        self.ratio, self.r, self.conv = ratio, r, PointNetConv(mlp, add_self_loops=False)

    def forward(self, x, pos, batch):
        index = fps(pos, batch, ratio=self.ratio)
        row, col = radius(pos, pos[index], self.r, batch, batch[index], max_num_neighbors=6)
        to = None if x is None else x[index]
        return self.conv((x, to), (pos, pos[index]), torch.stack([col, row])), pos[index], batch[index]


class Hierarchy(nn.Module):
    """PointNet++."""

    def __init__(self, classes=5):
        super().__init__()
        self.first, self.second = Abstraction(0.5, 0.8, MLP([3, 8, 8])), Abstraction(0.5, 1.2, MLP([11, 8, 8]))
        self.whole, self.head = MLP([11, 8]), MLP([8, 8, classes], norm=None)

    def forward(self, pos, batch):
        x, pos, batch = self.second(*self.first(None, pos, batch))
        return self.head(global_max_pool(self.whole(torch.cat([x, pos], 1)), batch)).log_softmax(-1)


class Interpolation(nn.Module):
    """Scores of points, interpolated from a sample."""

    def __init__(self, classes=5):
        super().__init__()
        self.down, self.up, self.head = Abstraction(0.5, 0.8, MLP([3, 8, 8])), MLP([11, 8]), nn.Linear(8, classes)

    def forward(self, pos, batch):
        x, there, of = self.down(None, pos, batch)
        return self.head(self.up(torch.cat([knn_interpolate(x, there, pos, of, batch, k=3), pos], 1)))


class VectorAttention(nn.Module):
    """PointTransformerConv."""

    def __init__(self, classes=5):
        super().__init__()
        self.lift, self.head = nn.Linear(3, 8), nn.Linear(8, classes)
        plain = {"norm": None, "plain_last": False}
        self.conv = PointTransformerConv(8, 8, MLP([3, 8, 8], **plain), MLP([8, 8, 8], **plain))

    def forward(self, pos, batch):
        x = self.conv(self.lift(pos).relu(), pos, knn_graph(pos, k=5, batch=batch))
        return self.head(global_mean_pool(x, batch))


class Layer(MessagePassing):
    """A layer of the user's own."""

    def __init__(self, channels, width):
        super().__init__(aggr="max")
        self.mlp = nn.Sequential(nn.Linear(channels + 3, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, h, pos, edge_index):
        return self.propagate(edge_index, h=h, pos=pos)

    def message(self, h_j, pos_j, pos_i):
        return self.mlp(torch.cat([h_j, pos_j - pos_i], dim=-1))


class Own(nn.Module):
    """Message passing of the user's own."""

    def __init__(self, classes=5):
        super().__init__()
        self.first, self.second, self.head = Layer(3, 8), Layer(8, 8), nn.Linear(8, classes)

    def forward(self, pos, batch):
        edges = knn_graph(pos, k=6, batch=batch, loop=True)
        x = self.second(self.first(pos, pos, edges).relu(), pos, edges).relu()
        return self.head(global_max_pool(x, batch))
