"""Farthest point sampling that returns the points themselves, also beside their indices."""

import copy
import io

import pytest
import torch
from torch import nn

import reqnn
from networks.checks import ORDER, ROTATIONS, error
from reqnn.errors import SelfCheckError


def _indices(xyz, count):
    """Indices from a random start, as most public code has it."""
    rows = torch.arange(len(xyz))
    nearest = torch.full(xyz.shape[:2], 1e10)
    chosen, current = [], torch.randint(0, xyz.shape[1], (len(xyz),))
    for _ in range(count):
        chosen.append(current)
        nearest = torch.minimum(nearest, ((xyz - xyz[rows, current][:, None]) ** 2).sum(-1).float())
        current = torch.max(nearest, 1)[1]
    return torch.stack(chosen, 1)


def centers_only(points, count):
    return points[torch.arange(len(points))[:, None], _indices(points, count)]


def centers_and_index(points, count):
    index = _indices(points, count)
    return {"index": index, "centers": points[torch.arange(len(points))[:, None], index]}


def channels_first(points, count):
    return centers_only(points.transpose(1, 2), count).transpose(1, 2)


def by_place(points, count):
    """Points of the cloud, but the last in storage."""
    return points[:, torch.arange(points.shape[1], 0, -1).sort()[1][:count]]


class Patches(nn.Module):
    """The nearest points to each centre, encoded and pooled."""

    def __init__(self, style):
        super().__init__()
        self.style = style
        self.encode = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(16, 4)

    def centers(self, xyz):
        if self.style == "dict":
            found = centers_and_index(xyz, 6)
            assert torch.equal(found["centers"].norm(dim=-1), xyz.norm(dim=-1).gather(1, found["index"]))
            return found["centers"]
        if self.style == "first":
            return channels_first(xyz.transpose(1, 2), 6).transpose(1, 2)
        return by_place(xyz, 6) if self.style == "place" else centers_only(xyz, 6)

    def forward(self, xyz):
        centers = self.centers(xyz)
        near = torch.cdist(centers, xyz).topk(5, largest=False)[1]
        patches = xyz[torch.arange(len(xyz))[:, None, None], near] - centers[:, :, None]
        return self.head(self.encode(patches).amax(2).mean(1))


POINTS = torch.randn(4, 24, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("style", ["points", "dict", "first"])
def test_ours_is_called_and_gives_its_result_in_the_same_form(style, rules):
    torch.manual_seed(0)
    net = reqnn.revise(Patches(style), POINTS.float(), rules=rules).double().eval()
    assert net.report.replaced
    for x in (POINTS, POINTS[:, :20]):
        assert error(net(x), net(x @ ROTATIONS[0].mT)) < 1e-10
        assert error(net(x), net(x[:, ORDER[x.shape[1] > ORDER]])) < 1e-10
    assert error(net(POINTS), net(POINTS.flip(0))) > 1e-3


def test_copies_and_files_keep_the_form():
    torch.manual_seed(0)
    net = reqnn.revise(Patches("dict"), POINTS.float()).double().eval()
    stream = io.BytesIO()
    torch.save(net, stream)
    stream.seek(0)
    for twin in (copy.deepcopy(net), torch.load(stream, weights_only=False)):
        assert torch.equal(net(POINTS), twin(POINTS))


def test_points_chosen_in_another_way_are_not_replaced():
    with pytest.raises(SelfCheckError, match="depend on the order"):
        reqnn.revise(Patches("place"), POINTS.float())
