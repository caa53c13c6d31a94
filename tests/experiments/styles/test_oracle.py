"""Gathered storage against ordinary tensors (``fused=False``) on networks of the zoo and in other styles, in float64."""

from itertools import product

import pytest
import torch
from torch import nn

import reqnn
from experiments.styles import RULES, SMALL_POINTS, STYLES, logits
from reqnn.kernels import run
from reqnn.nn.full_grouped import FullGrouped
from reqnn.nn.grouped import Grouped
from reqnn.nn.vector_grouped import VectorGrouped
from reqnn.rules import get_rules
from reqnn.tensor.gathered import Gathered, Repeated

pytestmark = pytest.mark.usefixtures("zoo")

ZOO = {
    "hierarchy": ("hierarchical_edgeconv", {"npoint": (48, 24, 16), "nsample": (8, 8, 12)}),
    "stem": ("dgcnn", {"sample": 24, "k": 8, "stem": 12}),
}
"""Networks of the zoo in ways of gathering that no style has: neighbours of all points around the first of them."""


def revised(name, rules, fused=True):
    """A small network, and clouds for it."""
    rule_set = get_rules(rules).with_options(fused=fused)
    if name in ZOO:
        network, options = ZOO[name]
        torch.manual_seed(1)
        points = torch.randn(3, SMALL_POINTS, 3, generator=torch.Generator().manual_seed(0))
        return reqnn.create_model(network, equivariant=True, rules=rule_set, num_classes=5, width=1 / 8, **options), points
    torch.manual_seed(0)
    style = STYLES[name]
    network, points = style.build(small=True), style.points(3, SMALL_POINTS)
    torch.manual_seed(1)
    return reqnn.revise(network, points, rules=rule_set, **style.revise[rules]), points


def pair(name, rules):
    """The same network with gathered storage and without; the same weights."""
    nets = []
    for fused in (True, False):
        net, points = revised(name, rules, fused)
        for module in net.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        nets.append(net.double())
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
@pytest.mark.parametrize("name", [*STYLES, *ZOO])
def test_same_as_ordinary_tensors(name, rules, monkeypatch):
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
    monkeypatch.setattr("reqnn.kernels.groups.ROWS", 64)  # several chunks
    for training in (False, True):
        with torch.no_grad():  # nothing is stored
            ours, theirs = (logits(net.train(training)(points)) for net in nets)
        torch.testing.assert_close(ours, theirs, rtol=loose * 1e-9, atol=loose * 1e-9)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", ["dgcnn", "pointnet2_msg", "residual_mlp", *ZOO])
def test_same_in_plain_torch(name, rules):
    """As on devices without compiled loops."""
    nets, points = pair(name, rules)
    with run.switched(False):
        for training in (True, False):
            for net in nets:
                net.train(training)
            assert_same(nets, points, 1e-8 if (name, rules) in BADLY_CONDITIONED else 1e-10)


@pytest.mark.parametrize(("name", "rules"), [*product(ZOO, RULES), ("residual_mlp", "paper"), ("residual_mlp", "full")])
def test_edges_are_never_stored(name, rules, monkeypatch):
    """Products are per point: nobody asks for the values of gathered features."""
    net, points = revised(name, rules)

    def stored(form):
        raise AssertionError(f"features of shape {tuple(form.raw.shape)} became dense")

    for storage in (Gathered, Repeated, Grouped, FullGrouped, VectorGrouped):
        monkeypatch.setattr(storage, "components", stored)
    for training in (True, False):
        net.train(training)(points).sum().backward()
    if name not in ZOO:
        return
    plain, _ = revised(name, rules, fused=False)
    plain(points)  # the oracle has no gathered features
    with pytest.raises(AssertionError, match="became dense"):
        net.features(points, at="levels.1.0" if name == "hierarchy" else "conv1.0")
