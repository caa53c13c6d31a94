"""Features taken out, turned and put back: exact in every revised network, refused where it makes no sense."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reqnn
from equivariance import difference, rotation_matrix
from reqnn import quaternion
from reqnn.errors import InputError
from reqnn.models.registry import model_entry
from reqnn.revision import revise
from reqnn.rules import get_rules
from reqnn.tensor import QuaternionTensor
from reqnn.zoo import create_model
from surfaces import surfaces

OPTIONS = {"width": 0.125, "k": 8, "npoint": (48, 16), "nsample": (8, 8), "radius": (0.5, 0.8), "dropout": 0.0}
MSG = {"radius": ((0.3, 0.5, 0.8), (0.5, 0.8, 1.2)), "nsample": ((4, 8, 8), (4, 8, 8))}
POINTS = surfaces(batch=2, points=64).double()

# layers of the quaternion part, the last one in each with nothing but itself between it and the output
QUATERNION = {
    "dgcnn": ("conv1", "conv3", "conv5"),
    "pointconv": ("sa1.mlp", "sa3.linear"),
    "pointnet": ("conv1", "bn3", "bn5"),
    "pointnet2": ("sa1.mlps.0", "sa3.mlps.0"),
    "pointnet2_msg": ("sa1.mlps.1", "sa2.mlps.2", "sa3.mlps.0"),
    "pointnet_reconstruction": ("conv2", "bn4", "conv7"),
    "pointnet_stn": ("bn2", "conv5"),
}
REAL = {"dgcnn": "conv6", "pointconv": "head.fc2", "pointnet2": "head.bn1", "pointnet": "head.drop1"}


def network(name, equivariant=True):
    """A small network in float64 whose statistics are those of clouds."""
    torch.manual_seed(0)
    options = {**OPTIONS, **(MSG if name == "pointnet2_msg" else {})}
    known = {key: value for key, value in options.items() if key in model_entry(name).options}
    net = create_model(name, equivariant, num_classes=5, **known).double()
    for module in net.modules():
        if hasattr(module, "momentum"):
            module.momentum = 1.0
    with torch.no_grad():
        net.train()(surfaces(batch=4, points=64, seed=1).double())
    return net.eval()


@pytest.fixture(scope="module")
def networks():
    return {name: network(name) for name in QUATERNION}


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, layers in QUATERNION.items() for at in layers])
def test_quaternion_features_turn_with_the_cloud(networks, name, at):
    net, rotation = networks[name], rotation_matrix(3)
    features, turned = net.features(POINTS, at=at), net.features(POINTS @ rotation.T, at=at)
    assert isinstance(features, QuaternionTensor)
    assert features.components.abs().max() > 1e-3
    assert difference(turned, reqnn.rotate_features(features, rotation)) <= 1e-10
    assert difference(turned, features) > 1e-3  # they do turn


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, layers in QUATERNION.items() for at in layers])
def test_features_put_back_give_the_same_outputs(networks, name, at):
    net = networks[name]
    assert difference(net.put_features(net.features(POINTS, at=at), POINTS, at=at), net(POINTS)) <= 1e-10


@pytest.mark.parametrize(("name", "at"), [(name, layers[-1]) for name, layers in QUATERNION.items()])
def test_turned_features_give_what_the_turned_cloud_gives(networks, name, at):
    net, rotation = networks[name], rotation_matrix(4)
    features = reqnn.rotate_features(net.features(POINTS, at=at), rotation)
    assert difference(net.put_features(features, POINTS @ rotation.T, at=at), net(POINTS @ rotation.T)) <= 1e-10
    # after these layers nothing comes from elsewhere: the cloud itself need not be turned
    assert difference(net.put_features(features, POINTS, at=at), net(POINTS @ rotation.T)) <= 1e-10


def test_turned_features_turn_the_output_of_a_network_of_vectors(networks):
    net, rotation = networks["pointnet_reconstruction"], rotation_matrix(5)
    for at in ("conv1", "bn4", "conv8", ""):
        features = reqnn.rotate_features(net.features(POINTS, at=at), rotation)
        out = net.put_features(features, POINTS, at=at)
        assert difference(out, net(POINTS) @ rotation.T) <= 1e-10
        assert difference(out, net(POINTS)) > 1e-3


def test_the_original_network_fails():
    net, rotation = network("pointnet_reconstruction", equivariant=False), rotation_matrix(5)
    seen = []
    net.conv4.register_forward_hook(lambda module, args, output: seen.append(output))
    net(POINTS), net(POINTS @ rotation.T)
    # its channels, three at a time, are no vectors
    features, turned = (QuaternionTensor(f[:, : f.shape[1] // 3 * 3].unflatten(1, (-1, 3)).movedim(2, 0)) for f in seen)
    assert difference(turned, reqnn.rotate_features(features, rotation)) > 1e-2


@pytest.mark.parametrize(("name", "at"), REAL.items())
def test_real_features_stay(networks, name, at):
    net, rotation = networks[name], rotation_matrix(6)
    features = net.features(POINTS, at=at)
    assert type(features) is torch.Tensor
    assert difference(net.features(POINTS @ rotation.T, at=at), features) <= 1e-10
    assert difference(net.put_features(features, POINTS, at=at), net(POINTS)) <= 1e-10
    with pytest.raises(InputError, match="only quaternion features rotate"):
        reqnn.rotate_features(features, rotation)


def test_other_features_give_other_outputs(networks):
    net = networks["pointnet"]
    other = net.features(POINTS.flip(0), at="bn4")
    assert difference(net.put_features(other, POINTS, at="bn4"), net(POINTS.flip(0))) <= 1e-10
    assert difference(net(POINTS.flip(0)), net(POINTS)) > 1e-3


def test_the_default_is_what_becomes_real(networks):
    net = networks["dgcnn"]
    assert difference(net.features(POINTS), net.features(POINTS, at="conv5")) == 0
    pooled = networks["pointnet"].features(POINTS)
    assert isinstance(pooled, QuaternionTensor)
    assert pooled.shape == (2, 128)
    turned = reqnn.rotate_features(pooled, rotation_matrix(1))
    assert difference(networks["pointnet"].put_features(turned, POINTS), networks["pointnet"](POINTS)) <= 1e-10
    assert networks["pointnet"].put_features(pooled * 2, POINTS).isfinite().all()
    vectors = networks["pointnet_reconstruction"].features(POINTS)
    assert vectors.vectors == "v"
    assert difference(vectors.as_real(), networks["pointnet_reconstruction"](POINTS)) == 0


def test_deferred_scales_are_in_the_features(networks):
    net = networks["pointnet"]
    before, after = net.features(POINTS, at="conv2"), net.features(POINTS, at="bn2")
    assert after.deferred is None
    ratio = after.norm_of_elements() / before.norm_of_elements()
    assert (ratio - ratio[:1, :, :1]).abs().max() < 1e-9  # one number a channel …
    assert (ratio - 1).abs().max() > 1e-3  # … and not 1


def test_fused_and_layer_by_layer_agree():
    fused = network("dgcnn")
    plain = create_model("dgcnn", True, 5, width=0.125, k=8, rules=get_rules("paper").with_options(fused=False)).double()
    plain.load_state_dict(fused.state_dict())
    plain.eval()
    assert difference(plain.features(POINTS, at="conv2.2").max(-1)[0], fused.features(POINTS, at="conv2")) <= 1e-10
    for at in ("conv2.0", "bn2", "conv2.2"):
        inside = fused.features(POINTS, at=at)
        assert difference(plain.features(POINTS, at=at), inside) <= 1e-10
        torch.testing.assert_close(fused.put_features(inside, POINTS, at=at), plain(POINTS))


@pytest.mark.parametrize("at", ["conv5", "conv1", None])
def test_gradients_flow(networks, at):
    net = networks["dgcnn"]
    points = POINTS.clone().requires_grad_()
    features = net.features(points, at=at)
    features.squared_norm().sum().backward()
    assert points.grad.abs().max() > 0
    leaf = features.components.detach().clone().requires_grad_()
    net.put_features(features.same(leaf), POINTS, at=at).square().sum().backward()
    assert leaf.grad.isfinite().all()
    assert leaf.grad.abs().max() > 0


def test_rotations_by_matrix_by_quaternion_and_one_a_cloud(networks):
    features = networks["pointnet"].features(POINTS, at="conv5")
    turns = quaternion.random_rotation(2, dtype=torch.float64)
    matrices = quaternion.to_matrix(turns)
    assert difference(reqnn.rotate_features(features, turns[0]), reqnn.rotate_features(features, matrices[0])) <= 1e-12
    each = reqnn.rotate_features(features, turns)
    assert difference(each, reqnn.rotate_features(features, matrices)) <= 1e-12
    assert difference(each[1], reqnn.rotate_features(features, turns[1])[1]) <= 1e-12
    turned = torch.einsum("bij,bnj->bni", matrices, POINTS)
    assert difference(networks["pointnet"].features(turned, at="conv5"), each) <= 1e-10


@pytest.mark.parametrize(
    ("rotation", "message"),
    [
        (torch.diag(torch.tensor([1.0, 1.0, -1.0])), "no rotation"),
        (torch.ones(4), "norm 2"),
        (torch.ones(3), r"shape \(3,\)"),
        (torch.eye(3).expand(5, 3, 3), "5 rotations"),
        (torch.eye(3, dtype=torch.int64), "dtype torch.int64"),
        ([1, 0, 0, 0], "a list"),
    ],
)
def test_what_is_no_rotation_is_refused(networks, rotation, message):
    with pytest.raises(InputError, match=message):
        reqnn.rotate_features(networks["pointnet"].features(POINTS, at="conv5"), rotation)


def test_unknown_names_and_several_outputs_are_refused(networks):
    net = networks["pointnet2"]
    with pytest.raises(InputError, match="no submodule 'sa4'; did you mean sa3, sa2, sa1"):
        net.features(POINTS, at="sa4")
    with pytest.raises(InputError, match=r"'sa1' gives 2 outputs \(QuaternionTensor, QuaternionTensor\).*sa1.mlps.0"):
        net.features(POINTS, at="sa1")
    with pytest.raises(InputError, match=r"'sa1.mlps' never runs"):
        net.features(POINTS, at="sa1.mlps")
    with pytest.raises(InputError, match="at is a int"):
        net.features(POINTS, at=5)


def test_features_that_do_not_fit_are_refused(networks):
    net = networks["pointnet"]
    features = net.features(POINTS, at="conv5")
    with pytest.raises(InputError, match="as many clouds and points"):
        net.put_features(features, POINTS[:1], at="conv5")
    with pytest.raises(InputError, match="features is a Tensor; 'conv5' gives a QuaternionTensor"):
        net.put_features(features.squared_norm(), POINTS, at="conv5")
    with pytest.raises(InputError, match=r"torch.float32 on cpu.*convert"):
        net.put_features(features.float(), POINTS, at="conv5")


class Twice(nn.Module):
    """Calls one layer twice, in place behind it, and another layer never."""

    def __init__(self):
        super().__init__()
        self.first, self.mix, self.idle = nn.Conv1d(3, 8, 1, bias=False), nn.Conv1d(8, 8, 1, bias=False), nn.Conv1d(8, 8, 1)
        self.features = nn.Linear(8, 4)

    def forward(self, points, scale=1.0):
        x = self.first(points)
        x.mul_(2)
        x = F.relu(self.mix(x))
        return self.features(F.relu(self.mix(x)).mean(-1)) * scale


def test_calls_in_place_changes_and_keyword_arguments():
    net = revise(Twice(), torch.randn(2, 3, 40)).double().eval()
    points = POINTS.mT.contiguous()
    with pytest.raises(InputError, match="runs 2 times in one pass; name a call: at='mix#1'"):
        net.features(points, at="mix")
    with pytest.raises(InputError, match="there is no call 3"):
        net.features(points, at="mix#3")
    with pytest.raises(InputError, match="'idle' never runs"):
        net.features(points, at="idle")
    first = net.features(points, at="first")
    assert difference(first.components, torch.einsum("o,bin->ibon", net.first.weight.flatten(), points)) <= 1e-12  # not twice
    for at in ("first", "mix#1", "mix#2"):
        features = net.features(points, at=at, scale=3.0)
        assert difference(net.put_features(features, points, at=at, scale=3.0), net(points, scale=3.0)) <= 1e-12
        assert difference(net.put_features(features * 2, points, at=at), net(points)) > 1e-4
    assert net.model.features.out_features == 4


def test_a_network_that_votes_passes_by_more_than_once():
    torch.manual_seed(0)
    net = create_model("dgcnn", True, num_classes=5, width=0.125, k=8, sample=32, votes=3).double().eval()
    first = net.features(POINTS)
    assert first.shape[-1] == 32
    torch.testing.assert_close(first.components, net.features(POINTS, at="conv5#1").components)
    assert not torch.equal(first.components, net.features(POINTS, at="conv5#2").components)
    for at, message in (("conv5", "3 times in one pass; name a call: at='conv5#1'"), (None, "name the submodule before it")):
        with pytest.raises(InputError, match=message):
            net.put_features(first, POINTS, at=at)
    matrix = rotation_matrix(seed=3).double()
    found = reqnn.align(net, POINTS[0], POINTS[0] @ matrix.T)
    assert difference(found.rotation, matrix) < 1e-6
