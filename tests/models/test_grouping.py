"""The ordinary point operations against loops that spell them out."""

import pytest
import torch

from reqnn.data.rotation import random_rotations, rotate_by
from reqnn.models import grouping
from reqnn.points import farthest_point_sample as invariant_sample


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


def test_a_sample_of_a_sample_is_its_beginning(xyz):
    sample = grouping.index_points(xyz, grouping.farthest_point_sample(xyz, 12))
    assert torch.equal(grouping.farthest_point_sample(sample, 5), torch.arange(5).expand(2, 5))


def test_farthest_point_sample_takes_every_point_once(xyz):
    idx = grouping.farthest_point_sample(xyz, 24)
    assert torch.equal(idx.sort(dim=1)[0], torch.arange(24).expand(2, 24))


def test_voting_samples(xyz):
    """The sample of the whole cloud, then of the cloud without the first point of that sample, without the second, …."""
    first = grouping.farthest_point_sample(xyz, 8)
    samples = grouping.voting_samples(xyz, 8, 4)
    assert len(samples) == 4
    assert torch.equal(samples[0], grouping.index_points(xyz, first))
    for vote, sample in enumerate(samples[1:]):
        for b in range(2):
            rest = xyz[b, [i for i in range(24) if i != first[b, vote]]]
            wanted = rest[grouping.farthest_point_sample(rest[None], 8)[0]]
            assert torch.equal(sample[b], wanted)
    for b in range(2):
        assert len({frozenset(map(tuple, sample[b].tolist())) for sample in samples}) == 4


def test_votes_need_a_point_to_spare(xyz):
    farthest = grouping.index_points(xyz, grouping.farthest_point_sample(xyz, 24))
    for votes in (1, 3):
        (sample,) = grouping.voting_samples(xyz, 24, votes)
        assert torch.equal(sample, farthest)
    assert len(grouping.voting_samples(xyz, 23, 3)) == 3
    assert len(grouping.voting_samples(xyz, 2, 9)) == 3  # a sample has only two points to leave out


def test_rounding_does_not_decide_which_points_vote():
    """Flat clouds rotated in float32: what the votes leave out is what it was, though the order of all points is not."""
    points = torch.rand(64, 1024, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1.0, 0.0])
    rotated = rotate_by(points, random_rotations(64, "AR", torch.Generator().manual_seed(1)))
    whole, again = (invariant_sample(cloud, 1024) for cloud in (points, rotated))
    assert torch.equal(whole[:, :4], again[:, :4])
    assert (whole != again).any(1).sum() > 3  # the negative control: an order of all points has near ties


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
