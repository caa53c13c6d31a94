"""The ordinary point operations against loops that spell them out."""

import pytest
import torch

from reqnn.models import grouping


@pytest.fixture
def xyz():
    return torch.rand(2, 24, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_square_distance(xyz):
    expected = torch.cdist(xyz, xyz[:, :5]) ** 2
    torch.testing.assert_close(grouping.square_distance(xyz, xyz[:, :5]), expected)


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 4)])
def test_index_points(xyz, shape):
    idx = torch.randint(24, shape, generator=torch.Generator().manual_seed(2))
    out = grouping.index_points(xyz, idx)
    assert out.shape == (*shape, 3)
    for b in range(2):
        assert torch.equal(out[b], xyz[b][idx[b]])


def test_farthest_point_sample(xyz):
    idx = grouping.farthest_point_sample(xyz, 8)
    assert idx.shape == (2, 8)
    assert idx.dtype == torch.int64
    for b in range(2):
        chosen = [0]
        while len(chosen) < 8:
            chosen.append(int(torch.cdist(xyz[b], xyz[b, chosen]).min(dim=1)[0].argmax()))
        assert idx[b].tolist() == chosen


def test_farthest_point_sample_takes_every_point_once(xyz):
    idx = grouping.farthest_point_sample(xyz, 24)
    assert torch.equal(idx.sort(dim=1)[0], torch.arange(24).expand(2, 24))


def test_voting_samples(xyz):
    """Each is a sample of the cloud without every third point; no point is left out twice."""
    order = grouping.farthest_point_sample(xyz, 24)
    samples = grouping.voting_samples(xyz, 8, 3)
    assert len(samples) == 3
    for left_out, sample in enumerate(samples):
        kept = [place for place in range(24) if place % 3 != left_out]
        for b in range(2):
            rest = xyz[b, order[b, kept]]
            wanted = rest[grouping.farthest_point_sample(rest[None], 8)[0]]
            assert torch.equal(sample[b], wanted)
    assert not torch.equal(samples[0], samples[1])
    left_out = [set(range(24)) - set(kept) for kept in grouping.kept_places(24, 8, 3)]
    assert sorted(place for places in left_out for place in places) == list(range(24))


def test_votes_need_enough_points(xyz):
    farthest = grouping.index_points(xyz, grouping.farthest_point_sample(xyz, 17))
    for votes in (1, 3):  # two thirds of 24 points are too few
        (sample,) = grouping.voting_samples(xyz, 17, votes)
        assert torch.equal(sample, farthest)
    assert len(grouping.voting_samples(xyz, 16, 3)) == 3


def test_query_ball_point_keeps_storage_order_and_pads_with_the_first(xyz):
    centres = xyz[:, 3:9]
    idx = grouping.query_ball_point(0.4, 6, xyz, centres)
    sizes = set()
    for b in range(2):
        for s in range(6):
            inside = ((xyz[b] - centres[b, s]).norm(dim=-1) <= 0.4).nonzero().flatten().tolist()
            sizes.add(len(inside) < 6)
            assert idx[b, s].tolist() == (inside + [inside[0]] * 6)[:6]
    assert sizes == {True, False}, "the cloud should have balls that overflow and balls that need padding"


def test_query_ball_point_of_an_empty_ball_is_a_valid_index(xyz):
    idx = grouping.query_ball_point(0.1, 6, xyz, xyz[:, :2] + 10)
    assert int(idx.max()) < 24


def test_query_ball_point_with_more_samples_than_points(xyz):
    assert grouping.query_ball_point(0.4, 100, xyz, xyz).shape == (2, 24, 24)


def test_knn_point_and_knn_agree_and_include_the_point(xyz):
    by_loop = torch.cdist(xyz, xyz).argsort(dim=-1)[:, :, :5]
    assert torch.equal(grouping.knn_point(5, xyz, xyz), by_loop)
    idx = grouping.knn(xyz.transpose(1, 2), 5)
    assert torch.equal(idx, by_loop)
    assert torch.equal(idx[:, :, 0], torch.arange(24).expand(2, 24))


def test_get_graph_feature(xyz):
    x = xyz.transpose(1, 2)
    edges, idx = grouping.get_graph_feature(x, 5), grouping.knn(x, 5)
    assert edges.shape == (2, 6, 24, 5)
    for b, i, j in [(0, 3, 1), (1, 7, 4), (0, 23, 0)]:
        neighbour = xyz[b, idx[b, i, j]]
        torch.testing.assert_close(edges[b, :, i, j], torch.cat([neighbour - xyz[b, i], xyz[b, i]]))


def test_compute_density(xyz):
    expected = torch.exp(-(torch.cdist(xyz, xyz) ** 2) / (2 * 0.2**2)).mean(dim=-1) / (2.5 * 0.2)
    torch.testing.assert_close(grouping.compute_density(xyz, 0.2), expected)
