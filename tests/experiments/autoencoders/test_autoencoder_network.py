"""The autoencoder: one latent a cloud, decoded in a frame that turns with it; and what the paper's rules alone cannot do."""

import pytest
import torch
from torch import nn

from experiments.autoencoders.frame import FrameDecoder
from experiments.autoencoders.network import Autoencoder
from reqnn import audit, quaternion, revise
from reqnn.errors import InputError
from reqnn.revision.features import rotate_features
from reqnn.tensor import QuaternionTensor
from reqnn.zoo import create_model
from surfaces import surfaces

SMALL = {"num_points": 20, "latent": 8, "width": 1 / 16, "encoder_options": {"k": 6, "extra_conv": False}}


def small(equivariant=True, **options):
    torch.manual_seed(0)
    return create_model("autoencoder", equivariant=equivariant, **(SMALL | options)).double().eval()


def rotation(seed=0):
    return quaternion.random_matrix((), torch.Generator().manual_seed(seed), torch.float64)


def test_both_kinds_are_of_one_size():
    counts = [sum(p.numel() for p in create_model("autoencoder", equivariant=e).parameters()) for e in (False, True)]
    assert counts == [1_289_248, 1_222_822]
    assert abs(counts[1] / counts[0] - 1) < 0.1


def test_the_cloud_turns_with_the_input_and_with_the_latent():
    net, points, turn = small(), surfaces(points=40).double(), rotation()
    expected = net(points) @ turn.T
    torch.testing.assert_close(net(points @ turn.T), expected, rtol=0, atol=1e-11)
    latent = net.features(points, at="latent")
    assert isinstance(latent, QuaternionTensor)
    assert latent.shape == (4, 8 + 3)  # with the axes of the cloud
    torch.testing.assert_close(
        net.put_features(rotate_features(latent, turn), points, at="latent"), expected, rtol=0, atol=1e-11
    )
    assert (small(equivariant=False)(points @ turn.T) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
def test_the_audit_passes(rules):
    options = {"num_points": 192, "latent": 8, "encoder_options": {"k": 8, "extra_conv": False}, "width": 1 / 16}
    net = create_model("autoencoder", equivariant=True, rules=rules, **options).eval()
    report = audit(net, surfaces(points=64), rotations=3, permutations=2, vector_axis=-1)
    assert report.ok, str(report)


def test_the_order_of_the_points_does_not_matter():
    net, points = small(), surfaces(points=40).double()
    torch.testing.assert_close(net(points.flip(1)), net(points), rtol=0, atol=1e-11)


def test_the_report_names_what_goes_beyond_the_paper():
    report = str(small().report)
    assert "Cross product *" in report
    assert "Cross product" not in str(small(cross_product=False).report)
    plain = revise(Autoencoder(parts=1, **SMALL), surfaces(points=40), vector_axis=-1, strict=True)
    assert "*" not in str(plain.report)


@pytest.mark.parametrize("cross_product", [True, False])
def test_a_latent_in_a_plane_is_decoded_off_it_by_the_cross_product_alone(cross_product):
    net, points = small(cross_product=cross_product), surfaces(points=40).double()
    latent = net.features(points, at="latent")
    latent.components[0] = 0  # the axes, too
    off_plane = net.put_features(latent, points, at="latent")[..., 0].abs().amax()
    assert (off_plane > 1e-3) if cross_product else (off_plane < 1e-12)


def test_the_frame_is_a_rotation_and_smooth_where_it_is_not():
    torch.manual_seed(0)
    decoder = FrameDecoder(5, 7, 16).double().eval()
    latent = QuaternionTensor(torch.randn(3, 4, 5 + 3, dtype=torch.float64))
    axes = decoder.frame(latent).components.permute(1, 0, 2)  # (B, 3, 3), columns the axes
    torch.testing.assert_close(axes.mT @ axes, torch.eye(3).double().expand(4, 3, 3))
    assert torch.linalg.det(axes).min() > 0.999
    line = torch.zeros(3, 1, 5 + 3, dtype=torch.float64)
    line[0] = torch.arange(8.0)
    for components in (line, torch.zeros_like(line)):  # all vectors on one line, and none at all
        parts = components.clone().requires_grad_()
        cloud = decoder(QuaternionTensor(parts))
        assert cloud.components.isfinite().all()
        cloud.squared_norm().sum().backward()
        assert parts.grad.isfinite().all()


@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("pointnet", {}),
        ("pointnet2", {"npoint": (16, 8), "radius": (0.5, 0.9), "nsample": (6, 6)}),
        ("pointnet2_msg", {"npoint": (16, 8), "radius": ((0.5,) * 3, (0.9,) * 3), "nsample": ((6,) * 3, (6,) * 3)}),
    ],
)
def test_other_networks_of_the_zoo_encode(encoder, options):
    net, points = small(encoder=encoder, encoder_options=options), surfaces(points=40).double()
    expected = net(points) @ rotation().T
    assert expected.shape == (4, 20, 3)
    torch.testing.assert_close(net(points @ rotation().T), expected, rtol=0, atol=1e-10)


def test_an_encoder_of_ones_own():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 6)

        def forward(self, points):
            return torch.relu(self.layer(points)).mean(1)

    points = surfaces(points=40)
    net = revise(Autoencoder(num_points=20, latent=4, encoder=Mean(), features=6, width=0.02, parts=1), points, vector_axis=-1)
    torch.testing.assert_close(net(points @ rotation().T.float()), net(points) @ rotation().T.float(), atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="features= is missing"):
        Autoencoder(encoder=Mean())


def test_mistakes_are_explained():
    with pytest.raises(InputError, match="gives no global features"):
        create_model("autoencoder", encoder="pointnet_reconstruction")
    with pytest.raises(InputError, match="at least 1"):
        create_model("autoencoder", latent=0)
    with pytest.raises(InputError, match="16 points or more"):
        create_model("autoencoder")(torch.zeros(2, 10, 3))
