"""QE-Capsule: quaternions and means against those of the library, equivariance given frames, and with frames of its own."""

import pytest
import torch

from reqnn import quaternion, revise
from reqnn.errors import NoRuleError
from reqnn.models import QECapsule
from reqnn.models.qe_capsule import local_reference_frames, top_eigenvector
from surfaces import surfaces


def rotation(seed=0, count=()):
    return quaternion.random_matrix(count, torch.Generator().manual_seed(seed), torch.float64)


def small():
    torch.manual_seed(0)
    return QECapsule(num_classes=5, width=1 / 8, npoint=24, nsample=6, neighbours=12).double().eval()


def test_top_eigenvector_and_its_gradient():
    torch.manual_seed(0)
    factors = torch.randn(3, 6, 4).double().requires_grad_()

    def projection(x):
        u = top_eigenvector(x.mT @ x)
        return u[:, :, None] * u[:, None]

    torch.testing.assert_close(
        projection(factors),
        torch.linalg.eigh(factors.mT @ factors)[1][..., -1:] @ torch.linalg.eigh(factors.mT @ factors)[1][..., -1:].mT,
    )
    assert torch.autograd.gradcheck(projection, factors)
    single = torch.eye(1, 4).double().requires_grad_()  # three eigenvalues are zero: eigh's own gradient is NaN
    top_eigenvector(single.mT @ single).sum().backward()
    assert single.grad.isfinite().all()


def test_frames_rotate_with_the_cloud():
    points, turn = surfaces().double(), rotation()
    frames = local_reference_frames(points, 12)
    torch.testing.assert_close(frames.mT @ frames, torch.eye(3).double().expand_as(frames))
    assert torch.linalg.det(frames).min() > 0.999
    torch.testing.assert_close(local_reference_frames(points @ turn.T, 12), turn @ frames)
    line = torch.linspace(0, 1, 20).double()[None, :, None] * torch.tensor([1.0, 0.0, 0.0]).double()
    assert small()(torch.cat([points[:1, :40], line], 1)).isfinite().all()


def test_frames_are_rotations_if_the_rim_is_almost_on_the_normal():
    angle = torch.arange(8) * (torch.pi / 4)
    ring = 0.8 * torch.stack([angle.cos(), angle.sin(), torch.zeros(8)], dim=-1)
    cloud = torch.cat([torch.zeros(1, 3), ring, torch.tensor([[3e-6, 0.0, 1.0]])])
    frames = local_reference_frames(cloud @ rotation(count=(64,)).float().mT, 10)[:, 0]
    found = frames[(frames != 0).flatten(1).any(1)]
    assert len(found) > 32
    torch.testing.assert_close(found.mT @ found, torch.eye(3).expand_as(found), atol=1e-5, rtol=0)


def test_exact_equivariance_given_frames():
    """Any frames, as long as they rotate with the points; rotating the points alone is the negative control."""
    net, points, frames, turn = small(), surfaces(points=64).double(), rotation(1, (4, 64)), rotation(2)
    frames[:, :5] = 0  # points without a frame
    poses, logits = net.capsules(points, frames)
    rotated_poses, rotated_logits = net.capsules(points @ turn.T, turn @ frames)
    torch.testing.assert_close(rotated_logits, logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(quaternion.to_matrix(rotated_poses), turn @ quaternion.to_matrix(poses), rtol=0, atol=1e-10)
    assert (net(points @ turn.T, frames) - net(points)).abs().max() > 1e-4
    assert (logits[0] - logits[1]).abs().max() > 1e-4


def test_frames_that_it_estimates_from_the_rotated_points():
    """As exact on bumpy clouds; on flat ones rounding decides the frames, and the answers change."""
    net, points, turn = small(), surfaces().double(), rotation(3)
    torch.testing.assert_close(net(points @ turn.T), net(points), rtol=0, atol=1e-12)
    order = torch.randperm(points.shape[1], generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(points[:, order]), net(points), rtol=0, atol=1e-12)
    flat = points * torch.tensor([1.0, 1.0, 0.0]).double()
    assert (net(flat @ turn.T) - net(flat)).abs().max() > 1e-4


def test_the_refusal_names_the_comparison_of_coordinates_and_the_way_out():
    with pytest.raises(NoRuleError, match=r"no rule for ne(?s:.*)frames != 0(?s:.*)rules='frames'"):
        revise(small(), surfaces().double())
