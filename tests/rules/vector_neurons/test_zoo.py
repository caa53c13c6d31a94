"""The networks of the zoo under the rules of Vector Neurons: audits, blocks that decline, training, files."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import reqnn
from reqnn.auditing import audit
from reqnn.models import create_model, list_models
from reqnn.models.registry import model_entry
from reqnn.nn.batch_norm import QuaternionBatchNorm
from reqnn.nn.edge_conv import QuaternionEdgeConv
from reqnn.nn.grouped_mlp import QuaternionGroupedMLP
from reqnn.rules import get_rules
from reqnn.train.calibration import recalibrate
from reqnn.train.sync import synchronise
from surfaces import surfaces
from test_audit import OPTIONS, QUICK, train

CLASSIFIERS = [name for name in list_models() if "num_classes" in model_entry(name).options]


def small(name, **options):
    torch.manual_seed(0)
    rules = get_rules("vector-neurons").with_options(frame_width=8, **options)
    return create_model(name, equivariant=True, num_classes=10, rules=rules, width=1 / 8, **OPTIONS.get(name, {}))


def assert_passes(net):
    report = audit(net, surfaces(), **QUICK)
    assert report.ok, str(report)
    assert max(report.rotation_error, report.permutation_error, report.batch_error) <= 1e-9
    assert report.spread > 1e-2


@pytest.mark.parametrize("name", list_models())
def test_audit(name):
    assert_passes(small(name))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_audit_of_trained_networks(name):
    """The output keeps the engine's tolerance. Hidden layers do not always: a batch-norm on norms stretches short vectors.

    Raising what fades them (`FADE`) would hide that, and keeps networks from learning.
    """
    net = small(name)
    train(net, surfaces())
    report = audit(net, surfaces(), **QUICK, tolerance=1e-8)
    assert report.ok, str(report)
    output = report.rows[-1]
    assert max(output.rotation_error, output.permutation_error, output.batch_error) <= 1e-9
    assert report.spread > 1e-2


@pytest.mark.parametrize("name", ["dgcnn", "pointnet2"])
@pytest.mark.parametrize("options", [{"pooling": "max"}, {"readings": 1, "direction": "shared", "slope": 0.2}])
def test_audit_of_the_options(name, options):
    assert_passes(small(name, **options))


@pytest.mark.parametrize("name", ["dgcnn", "pointnet2", "pointconv"])
def test_blocks_of_the_paper_decline(name):
    net = small(name)
    kinds = (QuaternionEdgeConv, QuaternionGroupedMLP, QuaternionBatchNorm)
    assert not any(isinstance(module, kinds) for module in net.modules())


def test_a_set_with_a_relu_of_its_own_keeps_it():
    """A block that computes the paper's ReLU must not stand for another."""
    mine = reqnn.rules.RuleSet("mine", parent=get_rules("paper"))
    mine.rule("leaky_relu", row="user", extension=True)(lambda x, negative_slope=0.01: x * negative_slope)
    net = create_model("dgcnn", equivariant=True, num_classes=5, rules=mine, width=1 / 16, k=6)
    assert not any(isinstance(module, QuaternionEdgeConv) for module in net.modules())
    assert "leaky_relu" in net.report.extensions


def test_recalibrated_statistics():
    net = small("dgcnn")
    assert recalibrate(net, [surfaces(), surfaces(seed=1)]) == 2
    norms = [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == 8
    assert all(int(norm.num_batches_tracked) == 2 for norm in norms)
    assert not bool((net.bn1.norms.running_mean == 0).any())


def test_weights_come_back():
    net, other = small("pointnet2").eval(), small("pointnet2")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1)
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(surfaces()), other.eval()(surfaces()))


def test_processes(tmp_path):
    """Synchronised and wrapped for several processes, of which there is one: the very step of the plain network."""
    plain, points = small("dgcnn", fused=False).double(), surfaces(points=48).double()
    shared = copy.deepcopy(plain)
    synchronise(shared)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        for net, wrapped in ((plain, plain), (shared, DistributedDataParallel(shared))):
            torch.manual_seed(0)
            wrapped.train()(points).square().sum().backward()
            assert net.conv1.relu_direction_0.grad.abs().max() > 0
    finally:
        dist.destroy_process_group()
    for (name, a), b in zip(shared.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-9, msg=name)
    for (name, a), b in zip(shared.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("name", ["dgcnn", "pointnet"])
def test_export(name):
    net, points = small(name).double().eval(), surfaces(points=48).double()
    program = torch.export.export(net, (points,))
    torch.testing.assert_close(program.module()(points), net(points), rtol=1e-9, atol=1e-9)


def test_names():
    assert get_rules("vector-neurons").name == "vector-neurons"
    with pytest.raises(reqnn.InputError, match="there are: full, paper, vector-neurons"):
        get_rules("neurons")
