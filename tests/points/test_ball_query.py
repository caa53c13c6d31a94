import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqnn.errors import InputError
from reqnn.points import ball_query, knn

from .clouds import DTYPES, Quaternions, generic, grid, moved, seeds, take


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("radius", [0.3, 1.0, 10.0])
def test_against_brute_force(dtype, radius):
    xyz, centers = generic(0, 60, dtype=dtype), generic(1, 9, dtype=dtype)
    index = ball_query(xyz, centers, radius, 8)
    assert index.dtype == torch.int64
    for b in range(2):
        for m in range(9):
            distance = (xyz[b] - centers[b, m]).norm(dim=-1)
            inside = [i for i in distance.argsort().tolist() if distance[i] <= radius][:8]
            nearest = int(distance.argmin())
            assert index[b, m].tolist() == inside + [nearest] * (8 - len(inside))


@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from([1.0, 2.0, 2.0**0.5, 3.0, 50.0]), st.integers(1, 20))
def test_points_do_not_change_with_orientation_or_order(seed, radius, k):
    # the radii are distances that occur on the grid: points lie on the sphere itself
    for xyz in (grid(seed), generic(seed)):
        turned, order = moved(xyz, seed)
        found = order[ball_query(turned, turned, radius, k)]
        assert torch.equal(found, ball_query(xyz, xyz, radius, k)[:, order])


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_on_the_sphere_are_inside_in_every_orientation(dtype):
    xyz = torch.cat((torch.zeros(1, 1, 3, dtype=dtype), torch.eye(3, dtype=dtype)[None] * 0.1), 1)
    for seed in range(10):
        turned, order = moved(xyz, seed)
        center = turned[:, (order == 0).nonzero()[0]]
        assert len(ball_query(turned, center, 0.1, 4).unique()) == 4


def test_an_empty_ball_gives_the_nearest_point():
    xyz, centers = generic(0), generic(1, 5) + 100
    assert torch.equal(ball_query(xyz, centers, 0.1, 4), knn(xyz, centers, 1).expand(2, 5, 4))


def test_duplicates_and_one_point():
    xyz = generic(2, 6).repeat(1, 3, 1)
    turned, order = moved(xyz, 2)
    found = take(xyz, order[ball_query(turned, turned, 0.5, 5)])
    assert torch.equal(found, take(xyz, ball_query(xyz, xyz, 0.5, 5)[:, order]))
    assert ball_query(xyz[:, :1], xyz[:, :2], 0.5, 1).tolist() == [[[0], [0]]] * 2


def test_quaternions():
    xyz = generic(0)
    assert torch.equal(ball_query(Quaternions(xyz), Quaternions(xyz), 1.0, 4), ball_query(xyz, xyz, 1.0, 4))


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_bad_radius(radius):
    with pytest.raises(InputError, match="radius"):
        ball_query(generic(0), generic(0), radius, 4)


def test_errors():
    with pytest.raises(InputError, match="k = 41 of 40"):
        ball_query(generic(0), generic(0), 1.0, 41)
    with pytest.raises(InputError, match="transpose"):
        ball_query(generic(0).mT, generic(0), 1.0, 4)
    with pytest.raises(InputError, match="centers"):
        ball_query(generic(0), generic(0)[0], 1.0, 4)
