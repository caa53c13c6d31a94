"""Table 1, "3D coordinates weighting": coordinates in the cloud's own PCA frame do not change when it is turned."""

import pytest
import torch
from hypothesis import given
from torch import nn

from equivariance import assert_equivariant, draw, rotation_matrix, rotations, seeds
from reqnn.errors import NoRuleError
from reqnn.nn import in_principal_frames
from reqnn.nn.coordinates import InFrame
from reqnn.points import principal_frame
from reqnn.rules import get_rules
from reqnn.tensor import from_real
from reqnn.tensor.context import Context


def clouds(seed, batch=2, points=9):
    """Clouds whose frames are not ambiguous."""
    x = torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.sign() * x.abs() ** 1.5 * torch.tensor([3.0, 2.0, 1.0]).double()


def context(points, frame="signed"):
    return Context(get_rules("paper").with_options(frame=frame), points=points)


def seen_from_within(points):
    """Coordinates of every point less the first, in the frame of its cloud."""
    return in_principal_frames(centred(points))


def centred(points, frame="signed"):
    x = from_real(points, -1, context(points, frame))
    return x - x[:, :1]


def weight_net(seed=0, out=2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, out)).double()


def in_frame(net, **options):
    net.forward = InFrame(net, **options)
    return net


def test_formula():
    points = clouds(0)
    x = points - points[:, :1]
    torch.testing.assert_close(seen_from_within(points), torch.einsum("bni,bij->bnj", x, principal_frame(points)))


@given(seeds, rotations)
def test_invariant(seed, rotation):
    points = clouds(seed)
    error = (seen_from_within(points @ rotation.T) - seen_from_within(points)).abs().max()
    assert error <= 1e-10


def test_float32():
    points, rotation = clouds(0).float(), rotation_matrix(1, torch.float32)
    torch.testing.assert_close(seen_from_within(points @ rotation.T), seen_from_within(points), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("frame", ["signed", "average"])
@given(seed=seeds, rotation=rotations)
def test_weights_of_a_network_are_invariant(frame, seed, rotation):
    net = in_frame(weight_net())

    def weights(points):
        return net(centred(points, frame))

    points = clouds(seed)
    assert weights(points).shape == (2, 9, 2)
    assert (weights(points @ rotation.T) - weights(points)).abs().max() <= 1e-10


def test_average_frames_need_no_signs():
    """A cloud that is its own mirror image in each plane has no signed frame, but an averaged one."""
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 3)
    points = torch.cat([signs * torch.tensor([3.0, 2.0, 1.0]).double(), signs * torch.tensor([1.0, 2.5, 0.2]).double()])[None]
    net = in_frame(weight_net())

    def weights(points):
        return net(from_real(points, -1, context(points, "average")))

    assert (weights(points @ rotation_matrix(3).T) - weights(points)).abs().max() <= 1e-10


def test_the_original_fails():
    net, points = weight_net(), clouds(0)
    assert (net(points @ rotation_matrix(1).T) - net(points)).abs().max() > 1e-3


def test_weighted_features_turn():
    """PointConv: Σ_j w(x_j)·f_j with weights from PCA-frame coordinates."""
    points, net, features = clouds(0), weight_net(), draw(1, 2, 9, 4)

    def point_conv(both):
        cloud, features = both
        x = from_real(cloud.as_real(), -1, context(cloud.as_real()))
        return net(in_principal_frames(x - x.mean(1, keepdim=True))).transpose(1, 2) @ features

    assert_equivariant(point_conv, [from_real(points, -1), features], rotation_matrix(2))


def test_shapes():
    points = clouds(0)
    x = from_real(points, -1, context(points))
    assert in_principal_frames(x.transpose(1, 2)).shape == (2, 3, 9)
    assert in_principal_frames(x.reshape(18, 3)).shape == (18, 3)
    assert in_principal_frames(x[:, :, None] - x[:, None]).shape == (2, 9, 9, 3)
    torch.testing.assert_close(in_principal_frames(x.reshape(18, 3)), in_principal_frames(x).reshape(18, 3))


def test_scalars_pass():
    points = clouds(0)
    x = from_real(torch.cat([points, points[..., :1]], -1), -1, context(points), scalars=1)
    torch.testing.assert_close(in_principal_frames(x)[..., 3:], points[..., :1])


def test_gradients_reach_the_coordinates():
    points = clouds(0)
    frame = context(points)

    def weigh(x):
        return in_principal_frames(from_real(x, -1, frame))

    assert torch.autograd.gradcheck(weigh, (points.clone().requires_grad_(),))


def test_one_point():
    assert seen_from_within(clouds(0, batch=1, points=1)).isfinite().all()


def test_features_and_foreign_rows_are_refused():
    points = clouds(0)
    with pytest.raises(NoRuleError, match="this tensor holds features"):
        in_principal_frames(draw(0, 2, 9, 4))
    with pytest.raises(NoRuleError, match="3 rows"):
        in_principal_frames(from_real(torch.zeros(3, 5, 3).double(), -1, context(points)))
    with pytest.raises(NoRuleError, match="no input cloud"):
        in_principal_frames(from_real(points, -1))


def test_a_block_converts_quaternions_only():
    points, net = clouds(0), in_frame(weight_net())
    torch.testing.assert_close(net(from_real(points, -1, context(points))), net(points @ principal_frame(points)))


@pytest.mark.parametrize("frame", ["signed", "average"])
def test_coordinates_are_rotated_back(frame):
    net, points, rotation = in_frame(weight_net(out=3)), clouds(0), rotation_matrix(1)
    net.forward.rotated = {0: 2}

    def block(points):
        return net(from_real(points, -1, context(points, frame))).as_real()

    assert (block(points @ rotation.T) - block(points) @ rotation.T).abs().max() <= 1e-10
    net.forward.rotated = {}  # the negative control: left in the frame, they do not rotate
    assert (net(from_real(points, -1, context(points))) - block_of(net, points) @ rotation.T).abs().max() > 1e-3


def block_of(net, points):
    return net(from_real(points, -1, context(points)))


def test_features_become_real_beside_coordinates():
    """A tensor of a vector and two features: the vector in the frame, the features by their squared norms."""
    points, features = clouds(0), draw(0, 2, 9, 2)
    x = from_real(points, -1, context(points))
    both = x.like(torch.cat([x.components, features.components], -1), 2, "vff")
    seen = in_frame(nn.Identity())(both)
    torch.testing.assert_close(seen[..., :3], points @ principal_frame(points))
    torch.testing.assert_close(seen[..., 3:], features.squared_norm())


def test_outside_of_a_pass_a_block_is_its_module():
    points, net = clouds(0), weight_net()
    expected = net(points)
    assert torch.equal(in_frame(net)(points), expected)
