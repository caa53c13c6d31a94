"""The networks of the zoo under the rules of full quaternions: audits, mirror images, training, files."""

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
from reqnn.rules.full.edge_conv import FullEdgeConv
from reqnn.train.calibration import recalibrate
from reqnn.train.sync import synchronise
from surfaces import surfaces
from test_audit import OPTIONS, QUICK, train

CLASSIFIERS = [name for name in list_models() if "num_classes" in model_entry(name).options]


def small(name, **options):
    torch.manual_seed(0)
    rules = get_rules("full").with_options(products=6, **options)
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
    net = small(name)
    train(net, surfaces())
    assert_passes(net)


@pytest.mark.parametrize("options", [{"pooling": "winner"}, {"unit": "pool", "handed": False}])
@pytest.mark.parametrize("name", ["dgcnn", "pointnet2"])
def test_audit_of_the_options(name, options):
    assert_passes(small(name, **options))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_mirror_image_gives_other_features(name):
    """And the paper's rules, frames aside, cannot tell it from the original: the negative control."""
    points = surfaces().double()
    mirrored = points * torch.tensor([-1.0, 1.0, 1.0]).double()
    ours = small(name).double()
    recalibrate(ours, [points])
    change = (ours.eval()(points) - ours(mirrored)).abs().max()
    assert change > 1e-3
    handless = small(name, handed=False).double()
    recalibrate(handless, [points])
    if not name.startswith("pointconv"):  # its coordinates are read in a right-handed frame
        assert (handless.eval()(points) - handless(mirrored)).abs().max() < 1e-9


def test_blocks_of_the_paper_decline():
    for name in ("dgcnn", "pointnet2", "pointconv"):
        kinds = (QuaternionEdgeConv, QuaternionGroupedMLP, QuaternionBatchNorm)
        assert not any(isinstance(module, kinds) for module in small(name).modules())
    assert sum(isinstance(module, FullEdgeConv) for module in small("dgcnn").modules()) == 4


def test_real_parts_end_in_the_ordinary_network():
    """DGCNN turns real a layer sooner than by the paper's rules."""
    assert small("dgcnn").report.to_real == ["conv5"]
    assert create_model("dgcnn", equivariant=True, width=1 / 8, k=6).report.to_real == ["conv6"]


def test_every_parameter_learns():
    for name in ("dgcnn", "pointnet2"):
        net = small(name).train()
        net(surfaces()).square().sum().backward()
        assert [name for name, parameter in net.named_parameters() if parameter.grad is None] == []


def test_recalibrated_statistics():
    net = small("dgcnn")
    assert recalibrate(net, [surfaces(), surfaces(seed=1)]) == 2
    norms = [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == 8
    assert all(int(norm.num_batches_tracked) == 2 for norm in norms)


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
            assert net.conv2[0].full_vectors_0.grad.abs().max() > 0
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


@pytest.mark.parametrize("name", sorted(set(list_models()) - set(CLASSIFIERS)))
def test_networks_that_end_in_clouds_give_pure_quaternions(name):
    net = small(name).train()
    net(surfaces()).square().sum().backward()
    assert [name for name, parameter in net.named_parameters() if parameter.grad is None] == []


def test_names():
    assert get_rules("full").name == "full"
    with pytest.raises(reqnn.InputError, match="there are: full, paper, vector-neurons"):
        get_rules("fuller")
