"""An audit that cannot fail proves nothing: each fault is caught, and the layer that has it is named."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reqnn.auditing import audit
from reqnn.models import grouping
from reqnn.models.pointnet2 import PointNet2
from reqnn.revision import revise
from reqnn.rules import get_rules
from reqnn.zoo import create_model
from surfaces import surfaces

SET_ABSTRACTION = {"npoint": (24, 8), "radius": (0.8, 1.0), "nsample": (6, 6)}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def points():
    return surfaces(points=64)


@pytest.fixture
def net():
    torch.manual_seed(0)
    rules = get_rules("paper").with_options(fused=False)  # every layer by itself, so that one can be broken
    return create_model("dgcnn", equivariant=True, num_classes=10, width=0.125, k=6, rules=rules)


def check(net, points, **options):
    return audit(net, points, rotations=3, permutations=2, **options)


def before(report, name):
    """The layer just before one, in the order of execution."""
    names = [row.name for row in report.rows]
    return report.rows[names.index(name) - 1]


def assert_rotation_breaks_at(report, name):
    assert not report.ok
    assert report.first_rotation_failure == name, str(report)
    assert before(report, name).rotation_error <= report.tolerance
    assert f"'{name}' is the first layer that is not rotation-equivariant" in str(report)
    assert f"'{before(report, name).name}' before it still holds" in str(report)


def test_the_network_without_a_fault_passes(net, points):
    assert check(net, points).ok


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_a_bias_put_back(net, points, size):
    direction = size * torch.tensor([0.3, -0.2, 0.5])

    def add(module, args, output):
        return output.same(output.components + direction.to(output.components).reshape(3, *[1] * output.rank))

    net.model.conv3[0].register_forward_hook(add)
    report = check(net, points)
    assert_rotation_breaks_at(report, "conv3.0")
    assert report.permutation_error <= report.tolerance


def test_a_bias_parameter_put_back(net, points):
    net.model.conv2[0].bias = nn.Parameter(torch.ones(8))
    report = check(net, points)
    assert_rotation_breaks_at(report, "conv2.0")
    assert report.rotation_error == math.inf
    assert "bias" in report.stopped
    assert report.first_permutation_failure is None
    assert '"inf"' in report.to_json()


@pytest.mark.parametrize("layer", ["conv1.2", "conv4.2"])
def test_a_real_relu_left_in(net, points, layer):
    def clamp(module, args, output):
        return output.same(output.components.clamp_min(0))

    net.model.get_submodule(layer).register_forward_hook(clamp)
    report = check(net, points)
    assert_rotation_breaks_at(report, layer)
    assert report.first_permutation_failure is None


def test_a_batch_norm_that_subtracts_the_mean(net, points):
    """The mean over the batch rotates with the clouds only if all rotate alike; here each has its own rotation."""

    def subtract(module, args, output):
        return output.same(output.components - output.components.mean((1, 3, 4), keepdim=True))

    net.model.bn2.register_forward_hook(subtract)
    report = check(net, points, modes=("train",))
    assert_rotation_breaks_at(report, "bn2")
    assert check(net, points, modes=("eval",)).first_batch_failure == "bn2"


def test_a_running_mean_is_a_fixed_direction(net, points):
    mean = torch.randn(3, 1, 8, 1, 1, generator=torch.Generator().manual_seed(0))

    def subtract(module, args, output):
        return output if module.training else output.same(output.components - mean.to(output.components))

    net.model.bn1.register_forward_hook(subtract)
    report = check(net, points)
    assert_rotation_breaks_at(report, "bn1")
    assert next(row for row in report.rows if row.name == "bn1").mode == "eval"


@pytest.mark.parametrize("name", ["query_ball_point", "farthest_point_sample"])
def test_the_original_point_functions(points, name):
    """A storage-order ball query, and sampling that begins at the first point: the first layer behind it is named."""
    torch.manual_seed(0)
    model = PointNet2(num_classes=10, width=0.125, **SET_ABSTRACTION)
    original = getattr(grouping, name)
    report = check(revise(model, points, to_real="head.fc1", replace={name: original}, check=False), points)
    assert report.first_permutation_failure == "sa1.mlps.0.convs.0", str(report)
    assert report.permutation_error > 1e-2
    assert report.rotation_error <= report.tolerance
    assert not report.ok


def test_a_layer_that_knows_the_order_of_the_points(net, points):
    def encode(module, args, output):
        return output * torch.linspace(0.5, 1.5, output.shape[2]).to(output.components)[:, None]

    net.model.conv2[2].register_forward_hook(encode)
    report = check(net, points)
    assert report.first_permutation_failure == "conv2.2"
    assert report.rotation_error <= report.tolerance
    assert "'conv2.2' is the first layer that depends on the order of the points" in str(report)


def test_a_real_layer_that_sees_other_clouds(net, points):
    net.model.head.fc1.register_forward_hook(lambda module, args, output: output - 0.1 * output.mean(0))
    report = check(net, points)
    assert report.first_batch_failure == "head.fc1"
    assert before(report, "head.fc1").batch_error <= report.tolerance
    assert report.first_rotation_failure is report.first_permutation_failure is None
    assert not report.ok
    assert "depends on the other clouds of the batch" in str(report)


def test_a_normalisation_without_running_statistics(net, points):
    net.model.bn3.running_power = None
    assert check(net, points).first_batch_failure == "bn3"


def test_a_fault_in_training_mode_only(net, points):
    def clamp(module, args, output):
        return output.same(output.components.clamp_min(0)) if module.training else output

    net.model.conv5[2].register_forward_hook(clamp)
    report = check(net, points)
    assert_rotation_breaks_at(report, "conv5.2")
    assert next(row for row in report.rows if row.name == "conv5.2").mode == "train"
    assert check(net, points, modes=("eval",)).ok


def test_the_output_may_hold_behind_a_layer_that_does_not():
    """Neighbours in storage order, then a maximum over them: the layer is named, and that the output holds is said."""

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.head = nn.Linear(1, 8), nn.Linear(8, 3)

        def forward(self, x):
            index = grouping.query_ball_point(10.0, x.shape[1], x, x)  # all points, in storage order
            lengths = grouping.index_points(x.square().sum(-1, keepdim=True), index)
            lengths = lengths - 0.1 * lengths[:, :, :1]
            return self.head(F.relu(self.fc(lengths)).flatten(1, 2).sort(1)[0][:, 0] + x.square().sum((1, 2))[:, None])

    class Forgotten(Pooled):
        def forward(self, x):
            self.fc(torch.arange(x.shape[1]).to(x)[None, :, None] * x.square().sum(-1, keepdim=True))
            return self.head(x.square().sum((1, 2))[:, None].expand(-1, 8))

    assert check(Pooled(), surfaces(points=40)).first_permutation_failure == "fc"
    report = check(Forgotten(), surfaces(points=40))
    assert report.first_permutation_failure == "fc"
    assert "the output still holds" in str(report)
