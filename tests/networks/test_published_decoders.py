"""Decoders that end in tanh, and sums of which one summand became real: found by trying published networks."""

import pytest
import torch
from torch import nn

import reqnn
from reqnn.errors import SelfCheckError


class Decoder(nn.Module):
    """Points from a code and a random grid, bounded by tanh (AtlasNet); `transposed`: (B, 3, N) → (B, M, 3)."""

    def __init__(self, transposed=False):
        super().__init__()
        self.transposed = transposed
        self.encoder, self.decoder = nn.Conv1d(3, 16, 1), nn.ModuleList([nn.Conv1d(18, 3, 1) for _ in range(2)])

    def forward(self, x):
        code = torch.relu(self.encoder(x if self.transposed else x.mT)).amax(2, keepdim=True)
        grid = torch.empty(len(x), 2, 10, dtype=code.dtype).uniform_(0, 1)
        y = torch.cat([grid, code.expand(-1, -1, 10)], 1)
        return torch.cat([torch.tanh(layer(y)) for layer in self.decoder], 2).mT


class Scores(nn.Module):
    """A softmax of the sum of two layers (GAPNet)."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.value, self.head = nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1), nn.Linear(8, 4)

    def forward(self, x):
        weight = torch.softmax(self.a(x) + self.b(x * x.norm(dim=1, keepdim=True)), -1)
        return self.head((weight * self.value(x)).sum(-1))


class Proxies(nn.Module):
    """A predicted cloud whose points look for neighbours in the input, and the input appended to the result (PoinTr)."""

    def __init__(self, product):
        super().__init__()
        self.product = product
        self.local = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.coarse, self.shift = nn.Linear(16, 3 * 8), nn.Linear(32, 3)

    def nearest(self, cloud, queries):
        if self.product:
            squares = (queries**2).sum(-1)[:, :, None] + (cloud**2).sum(-1)[:, None]
            return (squares - 2 * torch.matmul(queries, cloud.transpose(1, 2))).topk(4, largest=False)[1]
        return knn_point(4, cloud, queries)

    def forward(self, x):
        features = self.local(x)
        pooled = features.amax(1)
        seeds = self.coarse(pooled).reshape(len(x), 8, 3)
        with torch.no_grad():
            index = self.nearest(x, seeds)
        near = features[torch.arange(len(x))[:, None, None], index].amax(2)
        fine = seeds + self.shift(torch.cat([near, pooled[:, None].expand(-1, 8, -1)], -1))
        return torch.cat([fine, x], 1)


def knn_point(count, xyz, new_xyz):
    """(B, M, count): the nearest points of a cloud."""
    return torch.cdist(new_xyz, xyz).topk(count, largest=False, sorted=False)[1]


class Shuffled(nn.Module):
    """The last rows are the points in an order of their own: not the input appended."""

    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return torch.cat([self.local(x).mean(1, keepdim=True), x[:, ::2], x[:, 1::2]], 1)


class MaskedPatches(nn.Module):
    """Patches around sampled centres, a random part of them left out, another one for each cloud (masked autoencoders)."""

    def __init__(self, sampled=True):
        super().__init__()
        self.sampled = sampled
        self.encode, self.head = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16)), nn.Linear(16, 4)

    def forward(self, x):
        centers = farthest_points(x, 8) if self.sampled else x[:, :8]
        patches = x[torch.arange(len(x))[:, None, None], torch.cdist(centers, x).topk(5, largest=False)[1]]
        tokens = self.encode(patches - centers[:, :, None]).amax(2)
        mask = torch.zeros(tokens.shape[:2], dtype=torch.bool)
        for row in mask:
            row[torch.randperm(8)[:4]] = True
        return self.head(tokens[~mask].reshape(len(x), -1, 16).mean(1))


def farthest_points(x, count):
    """(B, count, 3): the points themselves, from a random first one."""
    rows, chosen, current = torch.arange(len(x)), [], torch.randint(0, x.shape[1], (len(x),))
    nearest = torch.full(x.shape[:2], 1e10)
    for _ in range(count):
        chosen.append(x[rows, current])
        nearest = torch.minimum(nearest, ((x - chosen[-1][:, None]) ** 2).sum(-1))
        current = torch.max(nearest, 1)[1]
    return torch.stack(chosen, 1)


@pytest.mark.parametrize("rules", ["paper", "full"])
@pytest.mark.parametrize("product", [False, True], ids=["knn", "squares"])
def test_a_predicted_cloud_is_vectors_where_it_meets_the_input(product, rules):
    torch.manual_seed(0)
    points, rotation = torch.randn(3, 20, 3).double(), reqnn.quaternion.random_matrix(dtype=torch.float64)
    net = reqnn.revise(Proxies(product), points.float(), rules=rules).double().eval()
    torch.testing.assert_close(net(points @ rotation.T), net(points) @ rotation.T, atol=1e-9, rtol=0)
    assert (net(points)[:, :8] - net(points.flip(0))[:, :8]).abs().max() > 1e-3
    with pytest.raises(SelfCheckError, match="depend on the order"):  # rows that follow the points in no such way
        reqnn.revise(Shuffled(), points.float(), rules=rules)


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_masks_may_differ_between_the_clouds_of_a_batch(rules):
    torch.manual_seed(0)
    points, rotation = torch.randn(3, 20, 3).double(), reqnn.quaternion.random_matrix(dtype=torch.float64)
    net = reqnn.revise(MaskedPatches(), points.float(), rules=rules).double().eval()
    logits = []
    for x in (points, points @ rotation.T, points[:, torch.randperm(20)]):
        torch.manual_seed(1)
        logits.append(net(x))
    torch.testing.assert_close(logits[1], logits[0], atol=1e-9, rtol=0)
    torch.testing.assert_close(logits[2], logits[0], atol=1e-9, rtol=0)
    assert (net(points) - logits[0]).abs().max() > 1e-6  # another mask
    with pytest.raises(SelfCheckError, match="depend on the order"):
        reqnn.revise(MaskedPatches(sampled=False), points.float(), rules=rules)


def test_coordinates_behind_tanh_rotate():
    points, rotation = torch.randn(2, 40, 3).double(), reqnn.quaternion.random_matrix(dtype=torch.float64)
    net = reqnn.revise(Decoder(), points.float(), rules="full").double().eval()
    clouds = []
    for x in (points, points @ rotation.T):
        torch.manual_seed(0)
        clouds.append(net(x))
    torch.testing.assert_close(clouds[1], clouds[0] @ rotation.T, atol=1e-9, rtol=0)
    assert (clouds[1] - clouds[0]).abs().max() > 1e-3


@pytest.mark.parametrize("rules", ["full", "frames"])
def test_three_on_the_other_axis_is_asked_for(rules):
    with pytest.raises(reqnn.InputError, match="three classes"):
        reqnn.revise(Decoder(transposed=True), torch.randn(2, 3, 40), rules=rules)
    reqnn.revise(Decoder(transposed=True), torch.randn(2, 3, 40), rules=rules, outputs=("vectors",))


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_both_summands_become_real(rules):
    points = torch.randn(4, 3, 40)
    net = reqnn.revise(Scores(), points, rules=rules)
    assert reqnn.audit(net, points, rotations=4, permutations=2, modes=("eval",)).ok


class RandomGrid(nn.Module):
    """A code beside random numbers that are float32 in any network."""

    def __init__(self):
        super().__init__()
        self.encoder, self.lift, self.decoder = nn.Conv1d(3, 16, 1), nn.Conv1d(2, 4, 1), nn.Conv1d(20, 3, 1)

    def forward(self, x):
        code = torch.relu(self.encoder(x.mT)).amax(2, keepdim=True)
        grid = self.lift(torch.rand(len(x), 2, 10))
        return self.decoder(torch.cat([grid, code.expand(-1, -1, 10)], 1)).mT


def test_a_network_that_makes_float32_tensors_runs_in_float64():
    points = torch.randn(2, 40, 3).double()
    net = reqnn.revise(RandomGrid(), points.float(), rules="full")
    torch.manual_seed(0)
    single = net(points.float())
    torch.manual_seed(0)
    double = net.double()(points)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, atol=1e-4, rtol=1e-4)
