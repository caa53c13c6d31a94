import pytest
import torch
from hypothesis import given, settings

from reqnn.points.ties import Centered, _invariants, invariant_rank, tie_tolerance, tied_runs, whole_ties

from .clouds import DTYPES, cube, generic, grid, moved, seeds


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_rank_follows_the_points(seed):
    for xyz in (generic(seed), grid(seed), generic(seed, dim=7)):
        turned, order = moved(xyz, seed)
        assert torch.equal(invariant_rank(turned), invariant_rank(xyz)[:, order])


def test_an_asymmetric_grid_is_ranked_completely():
    rank = invariant_rank(grid(0))
    assert (rank.sort(1).values == torch.arange(60)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_images_and_duplicates_share_a_rank(dtype):
    assert (invariant_rank(cube(dtype)) == 0).all()
    xyz = generic(0, 10, dtype=dtype)
    rank = invariant_rank(torch.cat((xyz, xyz), 1))
    assert torch.equal(rank[:, :10], rank[:, 10:])
    assert rank.max() == 9
    assert (invariant_rank(torch.ones(1, 4, 3, dtype=dtype)) == 0).all()


def test_mirror_images_within_a_chiral_cloud_are_told_apart():
    # A base symmetric in z -> -z puts both moments into that plane. Pairs ±p leave the odd moments alone, and these two
    # leave the covariance symmetric as well (Σ p_x p_z = 0), yet make the cloud chiral: only det sees it.
    half = torch.tensor([[1.0, 0.3, 0.5], [-0.4, 1.1, 0.9], [0.2, -0.7, 1.3]], dtype=torch.float64)
    base = torch.cat((half, half * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)))
    pairs = torch.tensor([[1.0, 0.0, 1.0], [2.0, 0.0, -0.5]], dtype=torch.float64)
    xyz = torch.cat((base - base.mean(0), pairs, -pairs))[None]
    keys = [key[0] for key in _invariants(Centered.of(xyz))]
    for key in (keys[0], keys[1], keys[2], keys[4]):
        torch.testing.assert_close(key[:3], key[3:6], atol=1e-15, rtol=0)
    assert ((keys[3][:3] - keys[3][3:6]).abs() > 1e-6).all()
    rank = invariant_rank(xyz)
    assert (rank[0, :3] != rank[0, 3:6]).all()
    turned, order = moved(xyz, 5)
    assert torch.equal(invariant_rank(turned), rank[:, order])


def test_boxes_symmetric_about_their_centroid_are_ranked_by_their_orbits():
    axes = [torch.arange(n, dtype=torch.float64) - (n - 1) / 2 for n in (3, 4, 5)]
    box = torch.cartesian_prod(*axes)[None]
    orbit = (box.abs() @ torch.tensor([100.0, 10.0, 1.0], dtype=torch.float64))[0]
    rank = invariant_rank(box)[0]
    for r in rank.unique():
        assert len(orbit[rank == r].unique()) == 1


def test_ties_are_taken_whole_or_not_at_all():
    run, rank = torch.tensor([0, 1, 1, 1, 2, 2]), torch.tensor([5, 3, 4, 4, 2, 2])
    assert [whole_ties(run, rank, k).item() for k in range(1, 7)] == [1, 2, 2, 4, 4, 6]
    same = torch.zeros(4, dtype=torch.int64)
    assert whole_ties(same, same, 3).item() == 3  # nothing else would be left


@pytest.mark.parametrize("dtype", DTYPES)
def test_tolerance_scales_with_the_cloud(dtype):
    xyz = generic(0, dtype=dtype)
    radius = (xyz - xyz.mean(1, keepdim=True)).norm(dim=-1).amax(1)
    torch.testing.assert_close(tie_tolerance(xyz), 16 * torch.finfo(dtype).eps * radius)
    torch.testing.assert_close(tie_tolerance(8 * xyz), 8 * tie_tolerance(xyz))
    features = generic(0, dtype=dtype, dim=6)
    radius = (features - features.mean(1, keepdim=True)).norm(dim=-1).amax(1)
    torch.testing.assert_close(tie_tolerance(features), torch.finfo(dtype).eps ** (2 / 3) * radius)
    assert Centered.of(xyz + 100).xyz.mean(1).abs().max() < 4 * torch.finfo(dtype).eps


def test_a_chain_of_small_gaps_is_one_run():
    values = torch.tensor([0.0, 0.9, 1.8, 3.0, 3.5])
    assert tied_runs(values, 1.0).tolist() == [0, 0, 0, 1, 1]


def test_far_from_the_origin_the_rank_follows_a_reordering():
    xyz = (generic(1, dtype=torch.float32) + 1000.0).float()
    order = torch.randperm(xyz.shape[1], generator=torch.Generator().manual_seed(0))
    assert torch.equal(invariant_rank(xyz[:, order]), invariant_rank(xyz)[:, order])
