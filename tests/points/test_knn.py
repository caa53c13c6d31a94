from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqnn.errors import InputError
from reqnn.points import count_ties, knn
from reqnn.points.ties import invariant_rank, tie_tolerance

from .clouds import DTYPES, Quaternions, cube, generic, grid, moved, seeds, take, whole_grid


def brute_force(xyz, query, k):
    """The definition in plain Python: sort, join what is within the tolerance, break ties by rank, take equal ranks or none."""
    rank, tolerance = invariant_rank(xyz).tolist(), tie_tolerance(xyz).tolist()
    result = []
    for b in range(len(xyz)):
        for q in query[b]:
            distance = (xyz[b] - q).norm(dim=-1).tolist()
            order = sorted(range(len(distance)), key=distance.__getitem__)
            run, runs = 0, {order[0]: 0}
            for i, j in pairwise(order):
                run += distance[j] - distance[i] > tolerance[b]
                runs[j] = run
            places = {i: (runs[i], rank[b][i]) for i in order}
            order.sort(key=lambda i, places=places: (places[i], i))
            left_out = [i for i in order[:k] if k < len(order) and places[i] == places[order[k]] != places[order[0]]]
            result.append([order[0] if i in left_out else i for i in order[:k]])
    return torch.tensor(result).view(len(xyz), -1, k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cloud", [generic, grid, whole_grid])
def test_against_brute_force(cloud, dtype):
    xyz = cloud(0, dtype=dtype)
    for k in (1, 7, xyz.shape[1]):
        index = knn(xyz, xyz[:, :9], k)
        assert index.dtype == torch.int64
        assert torch.equal(index, brute_force(xyz, xyz[:, :9], k))


@pytest.mark.parametrize("dtype", DTYPES)
def test_distances_of_generic_clouds_are_the_smallest(dtype):
    xyz, query = generic(1, 200, dtype=dtype), generic(2, 30, dtype=dtype)
    index = knn(xyz, query, 10)
    distance = (take(xyz, index) - query[:, :, None]).norm(dim=-1)
    expected = (query[:, :, None] - xyz[:, None]).norm(dim=-1).sort(-1).values[..., :10]
    torch.testing.assert_close(distance, expected)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 40), st.sampled_from([1, 3, 6]))
def test_neighbours_do_not_change_with_orientation_or_order(seed, points, dim):
    xyz = generic(seed, points, dim=dim)
    turned, order = moved(xyz, seed)
    k = min(points, 6)
    assert torch.equal(order[knn(turned, turned, k)], knn(xyz, xyz, k)[:, order])


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 59))
def test_exact_ties_do_not_change_with_orientation_or_order(seed, k):
    xyz = grid(seed)
    turned, order = moved(xyz, seed)
    assert torch.equal(order[knn(turned, turned, k)], knn(xyz, xyz, k)[:, order])


def test_exact_ties_in_single_precision():
    # turns that exchange the axes round nothing on a grid, so that float32 can be compared to the last index
    xyz = grid(4, dtype=torch.float32)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    turned = (xyz[..., [1, 2, 0]] * torch.tensor([1.0, -1.0, -1.0]))[:, order]
    assert torch.equal(order[knn(turned, turned, 8)], knn(xyz, xyz, 8)[:, order])


def test_storage_order_does_decide_without_the_rank():
    """The mutation that these tests must catch: plain top-k fails where knn passes."""
    xyz = grid(0)
    turned, order = moved(xyz, 0)
    plain = [torch.cdist(x, x).topk(8, largest=False).indices for x in (xyz, turned)]
    assert not torch.equal(take(xyz, order[plain[1]]).sum(2), take(xyz, plain[0][:, order]).sum(2))


def test_a_tied_run_across_the_margin_is_sorted_whole():
    # 64 points on a circle around the query, all tied; one bump makes their ranks differ
    angle = torch.arange(64, dtype=torch.float64) * 2 * torch.pi / 64
    ring = torch.stack((angle.cos(), angle.sin(), torch.zeros(64, dtype=torch.float64)), -1)
    xyz = torch.cat((ring, torch.tensor([[3.0, 0.7, 0.4]], dtype=torch.float64)))[None]
    query = torch.zeros(1, 1, 3, dtype=torch.float64)
    assert torch.equal(knn(xyz, query, 3), brute_force(xyz, query, 3))
    turned, order = moved(xyz, 1)
    assert torch.equal(order[knn(turned, query, 3)], knn(xyz, query, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_clouds_give_the_same_distances(dtype):
    xyz = cube(dtype)
    turned, order = moved(xyz, 3)
    for cloud in (xyz, turned):
        distance = (take(cloud, knn(cloud, cloud, 5)) - cloud[:, :, None]).norm(dim=-1)
        expected = torch.tensor([0, 2, 2, 2, 0], dtype=dtype).expand(1, 8, 5)  # one of three at √8 would be a choice
        torch.testing.assert_close(distance, expected, atol=1e-6, rtol=0)
    assert sorted(order.tolist()) == list(range(8))


def test_duplicates_give_the_same_points():
    xyz = generic(5, 12)
    xyz = torch.cat((xyz, xyz[:, :6], xyz[:, :6]), 1)
    turned, order = moved(xyz, 6)
    a = take(xyz, knn(xyz, xyz, 5)[:, order])
    b = take(xyz, order[knn(turned, turned, 5)])
    assert torch.equal(a, b)


def test_one_point():
    xyz = torch.ones(2, 1, 3)
    assert torch.equal(knn(xyz, generic(0, 4, dtype=torch.float32), 1), torch.zeros(2, 4, 1, dtype=torch.int64))
    assert count_ties(xyz, xyz, 1).tolist() == [0, 0]


def test_count_ties():
    centre = torch.zeros(1, 1, 3, dtype=torch.float64)
    assert count_ties(cube(), centre, 3).tolist() == [1]  # three of eight
    assert count_ties(cube(), centre, 8).tolist() == [0]
    assert count_ties(cube(), cube(), 2).tolist() == [0]  # of three neighbours at distance 2 none is taken
    assert count_ties(grid(0), grid(0), 6).tolist() == [0, 0]
    twice = torch.cat((generic(0, 8), generic(0, 8)), 1)
    assert count_ties(twice, twice, 1).tolist() == [0, 0]  # which of two duplicates is no question
    turned, _ = moved(cube(), 7)
    assert count_ties(turned, centre, 3).tolist() == [1]
    both = torch.cat((cube(), cube()), 1)
    assert count_ties(both, centre, 3).tolist() == [1]
    assert count_ties(both, cube(), 1).tolist() == [0]


def test_no_gradient_and_quaternions_and_half_precision():
    xyz = generic(0, 10, dtype=torch.float32).requires_grad_()
    index = knn(xyz, xyz, 3)
    assert not index.requires_grad
    assert torch.equal(knn(Quaternions(xyz), Quaternions(xyz), 3), index)
    assert torch.equal(count_ties(Quaternions(xyz), Quaternions(xyz), 3), torch.zeros(2, dtype=torch.int64))
    half = xyz.detach().bfloat16()
    assert torch.equal(knn(half, half, 3), knn(half.float(), half.float(), 3))


@pytest.mark.parametrize(
    ("xyz", "query", "k", "words"),
    [
        (torch.zeros(4, 3), torch.zeros(1, 4, 3), 1, "batch axis"),
        (torch.zeros(1, 4, 3, dtype=torch.int64), torch.zeros(1, 4, 3), 1, "dtype"),
        (torch.zeros(1, 0, 3), torch.zeros(1, 4, 3), 1, "empty"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 0, 3), 1, "query .* empty"),
        (torch.full((1, 4, 3), torch.nan), torch.zeros(1, 4, 3), 1, "NaN"),
        (torch.zeros(1, 4, 3), torch.full((1, 4, 3), torch.inf), 1, "query holds"),
        (torch.zeros(1, 4, 3), torch.zeros(2, 4, 3), 1, "batch size"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 2), 1, "dimension"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3).double(), 1, "dtype"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3), 5, "k = 5 of 4"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3), 0, "k = 0"),
        (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3), 1.5, "whole number"),
        ([[1.0]], torch.zeros(1, 4, 3), 1, "list"),
    ],
)
@pytest.mark.parametrize("search", [knn, count_ties])
def test_errors(search, xyz, query, k, words):
    with pytest.raises(InputError, match=words):
        search(xyz, query, k)
