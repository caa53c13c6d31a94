"""Gathered storage against ordinary tensors (``fused=False``) on networks in other people's styles, in float64."""

import pytest
import torch
from torch import nn

import reqnn
from experiments.styles import RULES, SMALL_POINTS, STYLES, logits
from reqnn.kernels import run
from reqnn.rules import get_rules


def pair(name, rules):
    """The same network with gathered storage and without; the same weights."""
    style, nets = STYLES[name], []
    torch.manual_seed(0)
    network, points = style.build(small=True), style.points(3, SMALL_POINTS)
    for fused in (True, False):
        torch.manual_seed(1)
        rule_set = get_rules(rules).with_options(fused=fused)
        net = reqnn.revise(network, points, rules=rule_set, **style.revise[rules]).double()
        for module in net.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        nets.append(net)
    nets[1].load_state_dict(nets[0].state_dict())
    return nets, points.double()


def results(net, points):
    """Outputs, gradients of inputs and parameters, and statistics."""
    points = points.clone().requires_grad_()
    net.zero_grad()
    out = logits(net(points))
    (out.square().sum() + out.sum()).backward()
    found = {"output": out.detach(), "points": points.grad}
    found |= {name: p.grad.clone() for name, p in net.named_parameters()}
    return found | {f"{name} of the state": value.clone() for name, value in net.named_buffers()}


BADLY_CONDITIONED = {("residual_mlp", "vector-neurons")}
"""Rounding of the inputs alone moves their gradients by more than 1e-9; norms of nearly zero vectors are normalised."""


def assert_same(nets, points, tolerance=1e-10):
    ours, theirs = (results(net, points) for net in nets)
    assert ours.keys() == theirs.keys()
    largest = max(float(value.abs().max()) for name, value in theirs.items() if "state" not in name)
    for name, expected in theirs.items():
        error = (ours[name].double() - expected.double()).abs().max()
        assert error <= tolerance * max(1.0, largest), (name, float(error))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", STYLES)
def test_same_as_ordinary_tensors(name, rules):
    nets, points = pair(name, rules)
    loose = 100 if (name, rules) in BADLY_CONDITIONED else 1
    for net in nets:
        net.train()
    assert_same(nets, points, loose * 1e-10)
    torch.manual_seed(2)
    with torch.no_grad():  # as far from the start as a few steps of training
        for ours, theirs in zip(*(net.parameters() for net in nets), strict=True):
            ours.add_(0.1 * torch.randn_like(ours))
            theirs.copy_(ours)
    assert_same(nets, points, loose * 1e-9)  # gradients of some are in the thousands
    for net in nets:
        net.eval()
    assert_same(nets, points, loose * 1e-10)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", ["dgcnn", "pointnet2_msg", "residual_mlp"])
def test_same_in_plain_torch(name, rules):
    """As on devices without compiled loops."""
    nets, points = pair(name, rules)
    with run.switched(False):
        for training in (True, False):
            for net in nets:
                net.train(training)
            assert_same(nets, points, 1e-8 if (name, rules) in BADLY_CONDITIONED else 1e-10)
