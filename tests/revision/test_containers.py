"""Networks that take and return tensors in namedtuples, dataclasses and dicts."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import reqnn
from equivariance import rotation_matrix

Pair = namedtuple("Pair", ["local", "pooled"])


@dataclass
class Both:
    local: Tensor
    pooled: Tensor


class Record(dict):
    """A dict of somebody's own."""

    @property
    def local(self):
        return self["local"]

    @property
    def pooled(self):
        return self["pooled"]


def record(local, pooled):
    return Record(local=local, pooled=pooled)


class Scores(nn.Module):
    """A layer whose argument holds two tensors."""

    def __init__(self):
        super().__init__()
        self.local, self.pooled = nn.Linear(8, 5), nn.Linear(8, 5)

    def forward(self, features):
        return self.local(features.local).mean(1) + self.pooled(features.pooled)


class Net(nn.Module):
    def __init__(self, kind, inside):
        super().__init__()
        self.embed, self.scores, self.kind, self.inside = nn.Linear(3, 8), Scores(), kind, inside

    def forward(self, points):
        local = self.embed(points)
        features = self.kind(local, local.amax(1))
        scores = self.scores(features)
        return scores if self.inside else self.kind(scores, features.pooled)


@pytest.fixture
def points():
    return torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.parametrize("rules", ["paper", "full"])
@pytest.mark.parametrize("kind", [Pair, Both, record])
@pytest.mark.parametrize("inside", [True, False], ids=["argument", "output"])
def test_kinds_of_containers(kind, inside, rules, points):
    torch.manual_seed(0)
    net = reqnn.revise(Net(kind, inside).double(), points, to_real="scores", rules=rules).eval()
    rotation = rotation_matrix(1)
    given, turned = net(points), net(points @ rotation.T)
    if inside:
        torch.testing.assert_close(turned, given, rtol=1e-9, atol=1e-9)
        return
    assert type(given) is type(kind(0, 0))
    assert type(given.local) is type(given.pooled) is Tensor
    assert given.pooled.shape == (4, 8)
    torch.testing.assert_close(turned.local, given.local, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(turned.pooled, given.pooled, rtol=1e-9, atol=1e-9)
    assert reqnn.audit(net, points, rotations=2, permutations=1).ok


class Coloured(nn.Module):
    """Real inputs inside a dict."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(3, 8), nn.Linear(10, 5)

    def forward(self, points, extra):
        return self.head(torch.cat([self.embed(points).amax(1).square(), extra["colour"]], 1))


def test_real_inputs_inside_a_dict(points):
    colour = torch.randn(4, 2).double()
    net = reqnn.revise(Coloured(), (points.float(), {"colour": colour.float()})).double().eval()
    assert net(points, {"colour": colour}).shape == (4, 5)
