import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reqnn.errors import InputError
from reqnn.points import farthest_point_sample

from .clouds import DTYPES, Quaternions, cube, generic, grid, moved, seeds, take


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_brute_force(dtype):
    xyz = generic(0, dtype=dtype)
    index = farthest_point_sample(xyz, 12)
    assert index.shape == (2, 12)
    assert index.dtype == torch.int64
    for b in range(2):
        chosen = [xyz[b].mean(0)]
        for i in index[b].tolist():
            distance = torch.stack([(xyz[b] - s).norm(dim=-1) for s in chosen]).amin(0)
            assert i == int(distance.argmax())
            chosen.append(xyz[b, i])


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 40))
def test_points_do_not_change_with_orientation_or_order(seed, n):
    for xyz in (generic(seed), grid(seed)):
        turned, order = moved(xyz, seed)
        assert torch.equal(order[farthest_point_sample(turned, n)], farthest_point_sample(xyz, n))


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 40))
def test_a_smaller_sample_is_the_beginning_of_a_larger_one(seed, n):
    """So one search serves all levels of a hierarchy. (A new one among the sampled points would start at *their* centroid.)"""
    for xyz in (generic(seed), grid(seed)):
        assert torch.equal(farthest_point_sample(xyz, 40)[:, :n], farthest_point_sample(xyz, n))


def test_exact_ties_in_single_precision():
    xyz = grid(4, dtype=torch.float32)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    turned = (xyz[..., [1, 2, 0]] * torch.tensor([1.0, -1.0, -1.0]))[:, order]
    assert torch.equal(order[farthest_point_sample(turned, 30)], farthest_point_sample(xyz, 30))


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_clouds_give_congruent_samples(dtype):
    # All corners have one rank, and with the centroid in S all are equally far from S after the first choice, though
    # at 2, √8 or √12 from that first corner: were the rank the last word, storage order would choose among these.
    for seed in range(20):
        turned, _ = moved(cube(dtype), seed)
        first, second = take(turned, farthest_point_sample(turned, 2))[0]
        torch.testing.assert_close(second, -first, atol=1e-5, rtol=0)


def test_all_points_come_once_also_with_duplicates():
    xyz = generic(1, 10).repeat(1, 2, 1)
    index = farthest_point_sample(xyz, 20)
    assert (index.sort(1).values == torch.arange(20)).all()
    turned, order = moved(xyz, 1)
    assert torch.equal(take(xyz, order[farthest_point_sample(turned, 20)]), take(xyz, index))
    assert take(xyz, index[:, :10]).unique(dim=1).shape[1] == 10


def test_one_point_and_one_place():
    assert farthest_point_sample(torch.ones(2, 1, 3), 1).tolist() == [[0], [0]]
    assert farthest_point_sample(torch.ones(1, 3, 3), 3).sort().values.tolist() == [[0, 1, 2]]


def test_no_gradient_and_quaternions():
    xyz = generic(0).requires_grad_()
    index = farthest_point_sample(xyz, 5)
    assert not index.requires_grad
    assert torch.equal(farthest_point_sample(Quaternions(xyz), 5), index)


@pytest.mark.parametrize("n", [0, 41, -1, 2.0, True])
def test_bad_count(n):
    with pytest.raises(InputError, match="n "):
        farthest_point_sample(generic(0), n)


def test_errors():
    with pytest.raises(InputError, match="transpose"):
        farthest_point_sample(generic(0).mT, 4)
    with pytest.raises(InputError, match="NaN"):
        farthest_point_sample(generic(0) / 0.0, 4)
