"""The networks of the zoo under the rule sets beyond the paper's: audits, blocks that decline, training, files.

The paper's own are audited in `test_audit`.
"""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import reqnn
from reqnn.auditing import audit
from reqnn.models import list_models
from reqnn.rules import get_rules
from reqnn.train.prediction import recalibrate
from reqnn.train.sync import synchronise
from reqnn.zoo import create_model
from rules.zoo import CHEAP, CLASSIFIERS, small
from surfaces import surfaces
from test_audit import QUICK, train

every_set = pytest.mark.parametrize("rules", CHEAP)


def largest(row):
    return max(row.rotation_error, row.permutation_error, row.batch_error)


def assert_passes(net, hidden=1e-9):
    report = audit(net, surfaces(), **QUICK, tolerance=hidden)
    assert report.ok, str(report)
    assert largest(report) <= hidden
    assert largest(report.rows[-1]) <= max(1e-9, hidden / 10)
    assert report.spread > 1e-2


@every_set
@pytest.mark.parametrize("name", list_models(revisable=True))
def test_audit(name, rules):
    """Outputs keep 1e-9; a hidden layer of PointNet's part segmentation by Vector Neurons reaches 1.3e-9 (see below)."""
    assert_passes(small(rules, name), hidden=1e-8 if (name, rules) == ("pointnet_parts", "vector-neurons") else 1e-9)


@every_set
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_audit_of_trained_networks(name, rules):
    """Outputs keep the engine's tolerance; trained Vector Neurons do not always.

    Their batch-norm on norms stretches short vectors: errors of hidden layers to 4e-8 and of outputs to 1.8e-9 in PointNet++,
    depending on the processor and the order of sums in training. Raising what fades them
    (`FADE`) would hide that, and keeps networks from learning.
    """
    net = small(rules, name).double()  # in float32 three steps from the same start end at different weights
    train(net, surfaces().double())
    assert_passes(net, hidden=1e-7 if rules == "vector-neurons" else 1e-9)


@pytest.mark.parametrize("name", ["dgcnn", "pointnet2"])
@pytest.mark.parametrize(
    ("rules", "options"),
    [
        ("vector-neurons", {"pooling": "max"}),
        ("vector-neurons", {"readings": 1, "direction": "shared", "slope": 0.2}),
        ("full", {"pooling": "winner"}),
        ("full", {"unit": "pool", "handed": False}),
    ],
    ids=str,
)
def test_audit_of_the_options(name, rules, options):
    assert_passes(small(rules, name, **options))


def test_a_set_with_a_relu_of_its_own_keeps_it():
    """Gathered storage must not apply the paper's ReLU instead."""
    mine = reqnn.rules.RuleSet("mine", parent=get_rules("paper"))
    mine.rule("leaky_relu", row="user", extension=True)(lambda x, negative_slope=0.01: x * negative_slope)
    net = create_model("dgcnn", equivariant=True, num_classes=5, rules=mine, width=1 / 16, k=6)
    assert "leaky_relu" in net.report.extensions
    plain = create_model("dgcnn", equivariant=True, num_classes=5, rules=mine.with_options(fused=False), width=1 / 16, k=6)
    plain.load_state_dict(net.state_dict())
    torch.testing.assert_close(net.eval()(surfaces()), plain.eval()(surfaces()))


@every_set
def test_recalibrated_statistics(rules):
    net = small(rules, "dgcnn")
    assert recalibrate(net, [surfaces(), surfaces(seed=1)]) == 2
    norms = [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == 8
    assert all(int(norm.num_batches_tracked) == 2 for norm in norms)
    assert not bool((norms[0].running_mean == 0).any())


@every_set
def test_weights_come_back(rules):
    net, other = small(rules, "pointnet2").eval(), small(rules, "pointnet2")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1)
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(surfaces()), other.eval()(surfaces()))


@pytest.mark.parametrize(
    ("rules", "learned"), [("vector-neurons", "conv1.relu_direction_0"), ("full", "conv2.0.full_vectors_0")]
)
def test_processes(tmp_path, rules, learned):
    """Synchronised and wrapped for several processes, of which there is one: the very step of the plain network."""
    plain, points = small(rules, "dgcnn", fused=False).double(), surfaces(points=48).double()
    shared = copy.deepcopy(plain)
    synchronise(shared)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        for net, wrapped in ((plain, plain), (shared, DistributedDataParallel(shared))):
            torch.manual_seed(0)
            wrapped.train()(points).square().sum().backward()
            assert net.model.get_parameter(learned).grad.abs().max() > 0
    finally:
        dist.destroy_process_group()
    for (name, a), b in zip(shared.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-9, msg=name)
    for (name, a), b in zip(shared.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=name)


@every_set
@pytest.mark.parametrize("name", ["dgcnn", "pointnet"])
def test_export(name, rules):
    net, points = small(rules, name).double().eval(), surfaces(points=48).double()
    program = torch.export.export(net, (points,))
    torch.testing.assert_close(program.module()(points), net(points), rtol=1e-9, atol=1e-9)


@every_set
def test_names(rules):
    assert get_rules(rules).name == rules
    with pytest.raises(reqnn.InputError, match="there are: frames, full, paper, vector-neurons"):
        get_rules(rules + "s")
