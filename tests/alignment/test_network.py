"""Alignment by the features of networks: exact for revised ones, wrong for the original, refused where nothing rotates."""

import pytest
import torch
from torch import nn

import reqnn
from equivariance import rotation_matrix
from reqnn.alignment import align
from reqnn.alignment.correlation import rotation_between
from reqnn.alignment.network import network_moments, point_features
from reqnn.alignment.verdict import degrees_between
from reqnn.errors import InputError
from reqnn.revision import revise
from reqnn.train.run import save_weights
from reqnn.zoo import create_model
from surfaces import surfaces

OPTIONS = {"dgcnn": {"k": 8}, "pointnet2": {"npoint": (48, 16), "nsample": (8, 8), "radius": (0.5, 0.8)}}
CLOUD = surfaces(1, 160, seed=3)[0].double()
CLOUD = CLOUD - CLOUD.mean(0)


def network(name, equivariant=True, dtype=torch.float64):
    torch.manual_seed(0)
    return create_model(name, equivariant, 5, width=0.125, **OPTIONS.get(name, {})).to(dtype)


def settled(net):
    """Statistics of clouds in place of the initial ones, with which features hardly differ."""
    for module in net.modules():
        if hasattr(module, "momentum"):
            module.momentum = 1.0
    with torch.no_grad():
        net.train()(surfaces(4, 160).to(next(net.parameters())))
    return net


def copy_of(cloud, seed=2):
    order = torch.randperm(len(cloud), generator=torch.Generator().manual_seed(seed))
    return cloud[order] @ rotation_matrix(seed).T, rotation_matrix(seed)


@pytest.mark.parametrize(
    ("name", "at"), [("dgcnn", None), ("dgcnn", "conv2"), ("pointnet", "bn3"), ("pointnet2", None), ("pointnet2", "sa1.mlps.0")]
)
def test_a_copy_is_aligned_exactly(name, at):
    target, rotation = copy_of(CLOUD)
    net = settled(network(name))
    found = align(net, CLOUD, target, at=at)
    assert degrees_between(found.rotation, rotation) < 1e-5
    assert found.confidence > 0.9
    assert all(module.training for module in net.modules())  # left as it was


def test_in_single_precision():
    target, rotation = copy_of(CLOUD)
    assert degrees_between(align(network("dgcnn", dtype=torch.float32), CLOUD, target).rotation, rotation) < 0.01


def test_another_sampling_by_features_at_points():
    torch.manual_seed(1)
    dense = surfaces(1, 1200, seed=3)[0].double()
    rotation = rotation_matrix(7)
    found = align(network("dgcnn"), dense[:600], dense[600:] @ rotation.T)
    assert degrees_between(found.rotation, rotation) < 10


def test_pooled_features_are_vectors_and_those_at_points_have_higher_degrees():
    weights = torch.full((len(CLOUD),), 1 / len(CLOUD), dtype=torch.float64)
    assert len(network_moments(network("pointnet2"), CLOUD, weights).values) == 1
    at_points = network_moments(network("dgcnn"), CLOUD, weights, "conv3")
    assert [value.shape[1] for value in at_points.values] == [3, 5, 7, 9, 11, 13]
    assert point_features(network("dgcnn"), CLOUD, "conv3").shape == (160, 16, 3)


def test_features_on_one_line_leave_an_axis_open():
    # all channels of PointNet choose the farthest point: its global feature has one direction only
    target, _ = copy_of(CLOUD)
    found = align(network("pointnet"), CLOUD, target)
    assert found.ambiguous
    assert found.confidence == 0
    assert "name another layer" in found.reason


def test_the_features_of_the_original_give_a_wrong_rotation():
    net, seen = network("dgcnn", equivariant=False).eval(), []
    net.conv5.register_forward_hook(lambda module, args, output: seen.append(output[0].mean(-1)))
    target, rotation = copy_of(CLOUD)
    net(CLOUD[None]), net(target[None])
    source, rotated = (f[: len(f) // 3 * 3].reshape(-1, 3) for f in seen)  # three channels taken for a vector
    assert degrees_between(rotation_between(source, rotated)[0], rotation) > 10
    revised = point_features(network("dgcnn"), CLOUD).mean(0), point_features(network("dgcnn"), target).mean(0)
    assert degrees_between(rotation_between(*revised)[0], rotation) < 1e-6


class Flat(nn.Module):
    """Takes (3, N) without a batch; channels first."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, points):
        return self.head(torch.relu(self.mix(points.T)).mean(0))


def test_other_layouts():
    target, rotation = copy_of(CLOUD)
    channels_first = nn.Sequential(nn.Conv1d(3, 8, 1, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 1))
    net = revise(channels_first, torch.randn(2, 3, 40), to_real="3").double()
    assert degrees_between(align(net, CLOUD, target, at="0").rotation, rotation) < 1e-5
    net = revise(Flat(), torch.randn(3, 40), to_real="head").double()
    assert align(net, CLOUD, target).rotation.isfinite().all()


def test_a_model_without_equivariant_features_is_refused(tmp_path):
    target, _ = copy_of(CLOUD)
    with pytest.raises(InputError, match=r"an ordinary DGCNN.*reqnn.revise"):
        align(network("dgcnn", equivariant=False), CLOUD, target)
    with pytest.raises(InputError, match="real features"):
        align(network("dgcnn"), CLOUD, target, at="conv6")
    with pytest.raises(InputError, match="no submodule 'conv9'; did you mean conv"):
        align(network("dgcnn"), CLOUD, target, at="conv9")
    with pytest.raises(InputError, match="model is None: pass a revised network"):
        align(None, CLOUD, target, at="conv5")
    with pytest.raises(InputError, match="model is a int"):
        align(3, CLOUD, target)
    with pytest.raises(InputError, match=r"there is no best.safetensors"):
        align(tmp_path, CLOUD, target)
    normals = revise(nn.Sequential(nn.Conv1d(6, 8, 1), nn.Conv1d(8, 2, 1)), torch.randn(2, 6, 40), to_real="1")
    with pytest.raises(InputError, match="needs a network that takes the coordinates"):
        align(normals, CLOUD, target)


def test_a_run_from_disk(tmp_path):
    target, rotation = copy_of(CLOUD)
    for equivariant in (True, False):
        config = reqnn.train.preset(
            "quick", "dgcnn", equivariant=equivariant, options={"width": 0.125, "k": 8}, precision="64-true"
        )
        net = reqnn.train.run.build_network(config, 2).double()
        save_weights(tmp_path / "best.safetensors", net, config, ("a", "b"), {})
        if equivariant:
            assert degrees_between(align(tmp_path, CLOUD, target).rotation, rotation) < 1e-5
        else:
            with pytest.raises(InputError, match=r"an ordinary DGCNN, .*; train one with --equivariant"):
                align(tmp_path, CLOUD, target)
