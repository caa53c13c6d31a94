"""Factorised edge convolutions of all rule sets that have one, against their generic rules."""

import copy
import pickle

import pytest
import torch
from torch import nn

from reqnn.models.dgcnn import EdgeConv
from reqnn.revision import revise
from reqnn.rules import get_rules
from reqnn.rules.factorised import FactorisedEdgeConv
from reqnn.tensor import from_real
from reqnn.tensor.context import Context
from reqnn.train.sync import synchronise


class Net(nn.Module):
    """Two edge convolutions."""

    def __init__(self, slope):
        super().__init__()
        self.first, self.second = EdgeConv(3, nn.BatchNorm2d(8), 5), EdgeConv(8, nn.BatchNorm2d(40), 5)
        self.first[2].negative_slope = self.second[2].negative_slope = slope
        self.head = nn.Linear(40, 4)

    def forward(self, points):
        return self.head(self.second(self.first(points.transpose(1, 2))).mean(-1))


def cloud(seed=0, batch=3, points=30):
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SETS = ("vector-neurons", "full")


def rules(name, **options):
    return get_rules(name).with_options(**options)


def pair(name, original=0.2, **options):
    """The same network factorised and by the generic rules."""
    nets = [
        revise(Net(original), cloud().float(), vector_axis=-1, rules=rules(name, fused=fused, **options)).double()
        for fused in (True, False)
    ]
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in nets[0].parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    nets[1].load_state_dict(nets[0].state_dict())
    return nets


def results(net, points):
    points = points.clone().requires_grad_()
    net.zero_grad()
    out = net(points)
    (out.square().sum() + out.sum()).backward()
    return {"out": out, "points": points.grad, **{name: p.grad.clone() for name, p in net.named_parameters()}}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("name", "original", "options"),
    [
        *(("vector-neurons", slope, {}) for slope in (0.2, 0.0)),
        ("vector-neurons", 0.0, {"slope": 0.3}),
        *(
            ("full", slope, options)
            for slope in (0.2, 0.0)
            for options in ({}, {"unit": "pool"}, {"unit": "norm"}, {"handed": False}, {"products": 5})
        ),
    ],
    ids=str,
)
def test_the_same_as_the_generic_rules(training, name, original, options):
    fast, plain = pair(name, original, **options)
    assert isinstance(fast.first, FactorisedEdgeConv)
    assert not isinstance(plain.first, FactorisedEdgeConv)
    for net in (fast, plain):
        net.train()(cloud(1))  # running statistics that are not those of the start
        net.train(training)
    ours, theirs = results(fast, cloud()), results(plain, cloud())
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-9, atol=1e-10, msg=name)
    for (name, a), b in zip(fast.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("name", SETS)
def test_finite_at_zero(name):
    fast, _ = pair(name)
    for points in (torch.zeros(3, 30, 3).double(), cloud()[:, :1].expand(3, 30, 3)):
        assert all(value.isfinite().all() for value in results(fast.train(), points).values())


@pytest.mark.parametrize("name", SETS)
def test_float32_and_odd_widths(name):
    """Channels that fill no whole task, and the rounding of float32."""
    fast, plain = pair(name)
    ours, theirs = fast.float().eval()(cloud().float()), plain.float().eval()(cloud().float())
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", SETS)
def test_copies(name):
    fast, _ = pair(name)
    expected = fast.eval()(cloud())
    assert torch.equal(copy.deepcopy(fast)(cloud()), expected)
    assert torch.equal(pickle.loads(pickle.dumps(fast))(cloud()), expected)
    twin = copy.deepcopy(fast).first
    assert twin._original[0][0] is twin[0]


@pytest.mark.parametrize("name", SETS)
def test_where_the_loops_do_not_run(name):
    """Exported graphs, and statistics that processes share, go by the generic rules."""
    fast, plain = pair(name)
    program = torch.export.export(fast.eval(), (cloud(),))
    torch.testing.assert_close(program.module()(cloud()), plain.eval()(cloud()), rtol=1e-9, atol=1e-10)
    x = from_real(cloud().transpose(1, 2), 1, Context(rules(name), names={id(m): n for n, m in fast.model.named_modules()}))
    before = fast.first(x)
    synchronise(fast)
    torch.testing.assert_close(fast.first(x).components, before.components, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("vector-neurons", options) for options in ({"pooling": "max"}, {"direction": "shared"}, {"fused": False})),
        *(("full", options) for options in ({"pooling": "winner"}, {"fused": False})),
    ],
    ids=str,
)
def test_where_its_algebra_does_not_hold(name, options):
    net = revise(Net(0.2), cloud().float(), vector_axis=-1, rules=rules(name, **options))
    assert not any(isinstance(module, FactorisedEdgeConv) for module in net.modules())


@pytest.mark.parametrize("name", SETS)
def test_statistics_alone_in_training_mode(name):
    """Calibration trains the batch-norms of a network that is otherwise in eval mode."""
    fast, _ = pair(name)
    fast.eval()
    norms = getattr(fast.first[1], "norms", fast.first[1]).train()
    count = int(norms.num_batches_tracked)
    fast(cloud())
    with torch.autocast("cpu", torch.bfloat16):  # by the generic rules
        fast.float()(cloud().float())
    assert norms.training
    assert int(norms.num_batches_tracked) == count + 2
