"""Neighbours and samples of lists of points, one cloud after the other: as by brute force, in every orientation and order."""

import pytest
import torch

from equivariance import rotation_matrix
from reqnn import NoRuleError
from reqnn.rules import get_rules
from reqnn.tensor import QuaternionTensor, from_real

ENDS = torch.tensor([0, 9, 9, 20])  # the second cloud is empty
POINTS = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
QUERIES = POINTS[[0, 4, 12, 15, 19]]
QUERY_ENDS = torch.tensor([0, 2, 2, 5])


def call(name, *args):
    """The rule, given quaternions for points."""
    given = [from_real(value, 1) if torch.is_tensor(value) and value.is_floating_point() else value for value in args]
    return get_rules("paper").find(name).apply(*given)


def same_cloud(queries, points):
    cloud = torch.bucketize(torch.arange(20), ENDS, right=True)
    return cloud[queries][:, None] == cloud[points][None]


def distances():
    apart = torch.cdist(QUERIES, POINTS)
    own = same_cloud(torch.tensor([0, 4, 12, 15, 19]), torch.arange(20))
    return apart.masked_fill(~own, float("inf"))


def as_set(edges):
    return {tuple(edge) for edge in edges.T.tolist()}


def test_knn():
    edges = call("knn", POINTS, QUERIES, ENDS, QUERY_ENDS, 4, False, 1)
    expected = distances().topk(4, largest=False)[1]
    assert torch.equal(edges, torch.stack([torch.arange(5).repeat_interleave(4), expected.flatten()]))
    assert as_set(call("knn", POINTS, POINTS, None, None, 1)) == {(i, i) for i in range(20)}
    assert torch.equal(call("nearest", QUERIES, POINTS, QUERY_ENDS, ENDS), torch.tensor([0, 4, 12, 15, 19]))


def test_knn_of_more_than_there_are():
    assert call("knn", POINTS, QUERIES, ENDS, QUERY_ENDS, 50).shape == (2, 2 * 9 + 3 * 11)


def test_radius():
    inside = as_set((distances() <= 2.0).nonzero().T)
    assert as_set(call("radius", POINTS, QUERIES, ENDS, QUERY_ENDS, 2.0, 32, 1, False)) == inside
    few = call("radius", POINTS, QUERIES, ENDS, QUERY_ENDS, 2.0, 3, 1, False)
    assert as_set(few) < inside
    assert as_set(few) <= as_set(call("knn", POINTS, QUERIES, ENDS, QUERY_ENDS, 3))  # the nearest, not the first
    without = as_set(call("radius", POINTS, POINTS, ENDS, ENDS, 1.2, 32, 1, True))
    assert without == {(i, j) for i, j in as_set(call("radius", POINTS, POINTS, ENDS, ENDS, 1.2, 32, 1, False)) if i != j}


def test_fps():
    chosen = call("fps", POINTS, ENDS, 0.3, True)
    assert len(chosen) == 3 + 4
    assert (chosen[:3] < 9).all()
    assert (chosen[3:] >= 9).all()
    centroid = POINTS[:9].mean(0)
    assert chosen[0] == (POINTS[:9] - centroid).norm(dim=-1).argmax()


@pytest.mark.parametrize("name", ["knn", "radius", "fps"])
def test_rotated_and_reordered(name):
    order = torch.cat([torch.randperm(9), 9 + torch.randperm(11)])
    where = order.argsort()
    arguments = {"knn": (ENDS, ENDS, 4), "radius": (ENDS, ENDS, 0.9, 5), "fps": (ENDS, 0.4)}[name]
    moved = (POINTS @ rotation_matrix(1).T)[order]
    usual = call(name, *[POINTS] * (1 if name == "fps" else 2), *arguments)
    again = call(name, *[moved] * (1 if name == "fps" else 2), *arguments)
    if name == "fps":
        assert torch.equal(where[usual].sort()[0], again.sort()[0])
    else:
        assert as_set(where[usual]) == as_set(again)


def test_what_has_no_rule():
    features = QuaternionTensor(torch.randn(3, 20, 4))
    with pytest.raises(NoRuleError, match="real numbers"):
        get_rules("paper").find("knn").apply(features, torch.randn(20, 4), None, None, 3)
    with pytest.raises(NoRuleError, match="another ratio"):
        call("fps", POINTS, ENDS, torch.tensor([1, 2, 3]))
    by_angle = get_rules("paper").find("knn").apply(features, 2 * features, None, None, 1, True)
    assert as_set(by_angle) == {(i, i) for i in range(20)}
