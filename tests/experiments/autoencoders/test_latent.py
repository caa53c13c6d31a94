"""Latents taken out, decoded, turned and mixed."""

import pytest
import torch

from experiments.autoencoders.latent import decode, encode, interpolate
from reqnn import quaternion
from reqnn.errors import InputError
from reqnn.revision.features import rotate_features
from reqnn.zoo import create_model
from surfaces import surfaces

SMALL = {"num_points": 20, "latent": 8, "width": 1 / 16, "encoder_options": {"k": 6, "extra_conv": False}}
KINDS = {"original": {}, "revised": {"equivariant": True}, "paper": {"equivariant": True, "cross_product": False}}


@pytest.fixture(params=KINDS)
def net(request):
    torch.manual_seed(0)
    return create_model("autoencoder", **KINDS[request.param], **SMALL).double().eval()


@pytest.fixture
def points():
    return surfaces(points=40).double()


def test_a_latent_decodes_to_what_the_network_gives(net, points):
    torch.testing.assert_close(decode(net, encode(net, points)), net(points))


def test_the_ends_are_the_two_objects(net, points):
    first, second = encode(net, points[:1]), encode(net, points[1:2])
    between = decode(net, interpolate(net, first, second, 5))
    assert between.shape == (5, 20, 3)
    torch.testing.assert_close(between[[0, -1]], net(points[:2]), rtol=0, atol=1e-9)
    moved = (between[1:] - between[:-1]).norm(dim=-1).amax(1)
    assert moved.min() > 1e-3 * moved.max()  # an untrained network gives small clouds


def test_between_two_turned_copies_lie_turned_copies(points):
    torch.manual_seed(0)
    net = create_model("autoencoder", equivariant=True, **SMALL).double().eval()
    turn = quaternion.to_matrix(quaternion.from_axis_angle(torch.tensor([0.0, 0, 1]).double(), torch.tensor(1.2).double()))
    half = quaternion.to_matrix(quaternion.from_axis_angle(torch.tensor([0.0, 0, 1]).double(), torch.tensor(0.6).double()))
    latent = encode(net, points[:1])
    middle = decode(net, interpolate(net, latent, rotate_features(latent, turn), 3))[1]
    torch.testing.assert_close(middle, net(points[:1])[0] @ half.T, rtol=0, atol=1e-9)


def test_interpolation_turns_with_both(points):
    torch.manual_seed(0)
    net = create_model("autoencoder", equivariant=True, **SMALL).double().eval()
    turn = quaternion.random_matrix((), torch.Generator().manual_seed(0), torch.float64)
    ends = [encode(net, points[i : i + 1]) for i in (0, 1)]
    expected = decode(net, interpolate(net, *ends, 4)) @ turn.T
    found = decode(net, interpolate(net, *(rotate_features(end, turn) for end in ends), 4))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_mistakes_are_explained(net, points):
    latent = encode(net, points[:2])
    with pytest.raises(InputError, match="at least 2 steps"):
        interpolate(net, latent, latent, 3)
