import pytest
import torch
from hypothesis import assume, given, settings

from reqnn import quaternion
from reqnn.errors import InputError
from reqnn.points import frame_ambiguity, principal_frame, right_handed_frames

from .clouds import DTYPES, Quaternions, cube, generic, seeds

STRETCH = torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64)


def skewed(seed, dtype=torch.float64, batch=2):
    """A cloud with three clearly different variances and skewnesses."""
    generator = torch.Generator().manual_seed(seed)
    xyz = torch.rand(batch, 400, 3, generator=generator, dtype=torch.float64).log() * STRETCH
    return (xyz @ quaternion.random_matrix((), generator, torch.float64).T).to(dtype)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_is_a_right_handed_frame_of_principal_axes(dtype, error):
    xyz = skewed(0, dtype)
    frame = principal_frame(xyz)
    assert frame.dtype == dtype
    torch.testing.assert_close(frame.mT @ frame, torch.eye(3, dtype=dtype).expand(2, 3, 3), atol=error, rtol=0)
    torch.testing.assert_close(torch.linalg.det(frame), torch.ones(2, dtype=dtype), atol=error, rtol=0)
    along = (xyz - xyz.mean(1, keepdim=True)) @ frame
    covariance = along.mT @ along / 400
    variances = covariance.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(covariance, torch.diag_embed(variances), atol=30 * error, rtol=0)
    assert (variances.diff(dim=1) < 0).all()
    skewness = along.pow(3).sum(1) / along.abs().pow(3).sum(1)
    decisive = skewness.abs() > skewness.abs().amin(1, keepdim=True)
    assert (skewness[decisive] > 0).all()


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_turns_with_the_cloud(seed):
    xyz = skewed(seed)
    assume(not frame_ambiguity(xyz, 1e-3).any())
    generator = torch.Generator().manual_seed(seed)
    turn = quaternion.random_matrix((), generator, torch.float64)
    order = torch.randperm(400, generator=generator)
    turned = (xyz @ turn.T)[:, order] + 5
    torch.testing.assert_close(principal_frame(turned), turn @ principal_frame(xyz), atol=1e-10, rtol=0)


def test_single_precision_turns_with_the_cloud():
    xyz = skewed(1, torch.float32)
    turn = quaternion.random_matrix((), torch.Generator().manual_seed(2), torch.float32)
    torch.testing.assert_close(principal_frame(xyz @ turn.T), turn @ principal_frame(xyz), atol=2e-5, rtol=0)


def test_the_four_frames_are_one_set_whatever_the_signs():
    xyz = cube() * STRETCH  # every skewness vanishes: only the set of frames is defined
    turn = quaternion.random_matrix((), torch.Generator().manual_seed(2), torch.float64)
    a, b = right_handed_frames(xyz), right_handed_frames(xyz @ turn.T)
    assert a.shape == (1, 4, 3, 3)
    torch.testing.assert_close(torch.linalg.det(a), torch.ones(1, 4, dtype=torch.float64))
    assert torch.equal(a[:, 0], principal_frame(xyz))
    apart = ((turn @ a)[0, :, None] - b[0, None]).abs().amax((-1, -2))
    assert (apart.amin(0) < 1e-12).all()
    assert (apart.amin(1) < 1e-12).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_ambiguity(dtype):
    assert not frame_ambiguity(skewed(0, dtype)).any()
    assert frame_ambiguity(cube(dtype)).all()  # equal variances
    assert frame_ambiguity(cube(dtype) * STRETCH.to(dtype)).all()  # no skewness
    line = torch.arange(5, dtype=dtype)[None, :, None].square() * torch.ones(3, dtype=dtype)
    assert frame_ambiguity(line).all()
    assert frame_ambiguity(torch.ones(1, 1, 3, dtype=dtype)).all()
    mirrored = skewed(3, torch.float64)
    frame = principal_frame(mirrored)
    along = (mirrored - mirrored.mean(1, keepdim=True)) @ frame
    both = torch.cat((along, along * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)), 1)
    assert not frame_ambiguity(both.to(dtype)).any()  # one vanishing skewness: the other two signs give the third


@pytest.mark.parametrize("dtype", DTYPES)
def test_degenerate_clouds_give_finite_right_handed_frames(dtype):
    flat = generic(0, dtype=dtype) * torch.tensor([1.0, 1.0, 0.0], dtype=dtype)
    line = generic(0, dtype=dtype) * torch.tensor([1.0, 0.0, 0.0], dtype=dtype)
    for xyz in (flat, line, cube(dtype), torch.ones(2, 1, 3, dtype=dtype), torch.zeros(1, 9, 3, dtype=dtype)):
        torch.testing.assert_close(torch.linalg.det(principal_frame(xyz)), torch.ones(len(xyz), dtype=dtype))


def test_a_flat_cloud_has_a_frame_that_turns_with_it():
    flat = skewed(4, batch=1) @ principal_frame(skewed(4, batch=1)) * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    assert not frame_ambiguity(flat).any()
    for seed in range(5):
        turn = quaternion.random_matrix((), torch.Generator().manual_seed(seed), torch.float64)
        torch.testing.assert_close(principal_frame(flat @ turn.T), turn @ principal_frame(flat), atol=1e-10, rtol=0)


def test_rounding_off_the_plane_of_a_flat_cloud_decides_no_sign():
    # with few points the rounding across the plane may look more skewed than the cloud does within it
    flat = generic(1, 6, batch=40) * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    flat = flat[~frame_ambiguity(flat, 1e-3)]
    assert len(flat) > 20
    for seed in range(5):
        turn = quaternion.random_matrix((), torch.Generator().manual_seed(seed), torch.float64)
        torch.testing.assert_close(principal_frame(flat @ turn.T), turn @ principal_frame(flat), atol=1e-9, rtol=0)


def test_detached_and_quaternions():
    xyz = skewed(0).requires_grad_()
    assert not principal_frame(xyz).requires_grad
    for f in (principal_frame, frame_ambiguity, right_handed_frames):
        assert torch.equal(f(Quaternions(xyz)), f(xyz))


@pytest.mark.parametrize("f", [principal_frame, frame_ambiguity, right_handed_frames], ids=lambda f: f.__name__)
def test_errors(f):
    with pytest.raises(InputError, match="transpose"):
        f(torch.zeros(1, 3, 4))
    with pytest.raises(InputError, match="NaN"):
        f(torch.full((1, 4, 3), torch.nan))
