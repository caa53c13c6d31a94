"""The factorised edge convolution against the generic rules."""

import copy
import pickle

import pytest
import torch
from torch import nn

from reqnn.context import Context
from reqnn.models.dgcnn import EdgeConv
from reqnn.nn.full_edges import EdgeInvariants, PoolEdges, Pooling
from reqnn.points import knn
from reqnn.revision import revise
from reqnn.rules.full.edge_conv import FullEdgeConv
from reqnn.tensor import from_real
from reqnn.train.sync import synchronise
from rules.full.layers import rules


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


def pair(original=0.2, **options):
    """The same network factorised and by the generic rules."""
    nets = [
        revise(Net(original), cloud().float(), vector_axis=-1, rules=rules(fused=fused, **options)).double()
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
@pytest.mark.parametrize("options", [{}, {"unit": "pool"}, {"unit": "norm"}, {"handed": False}, {"products": 5}], ids=str)
@pytest.mark.parametrize("slope", [0.2, 0.0])
def test_the_same_as_the_generic_rules(training, slope, options):
    fast, plain = pair(slope, **options)
    assert isinstance(fast.first, FullEdgeConv)
    assert type(plain.first) is not FullEdgeConv
    for net in (fast, plain):
        net.train()(cloud(1))  # running statistics that are not those of the start
        net.train(training)
    ours, theirs = results(fast, cloud()), results(plain, cloud())
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-9, atol=1e-10, msg=name)
    for (name, a), b in zip(fast.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("kinds", [2, 3])
def test_gradients_of_the_invariants(kinds):
    generator = torch.Generator().manual_seed(0)
    ends = [torch.randn(2, 6, 3, kinds * 4, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    idx = knn(cloud(batch=2, points=6), cloud(batch=2, points=6), 3)
    assert torch.autograd.gradcheck(lambda *ends: EdgeInvariants.apply(*ends, idx, 4), ends)


@pytest.mark.parametrize("unit", [0.0, 1e-3])
@pytest.mark.parametrize("batch_statistics", [True, False])
def test_gradients_of_the_pooling(unit, batch_statistics):
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    idx = knn(cloud(batch=2, points=6), cloud(batch=2, points=6), 3)
    tensors = [drawn(2, 6, 3, 4), drawn(2, 6, 4), drawn(2, 6, 4), drawn(2, 6, 3, 4), drawn(2, 6, 3, 4), drawn(4), drawn(4)]
    running = None if batch_statistics else (torch.zeros(4).double(), torch.ones(4).double())
    pooling = Pooling(0.2, 1e-5, unit, running)
    assert torch.autograd.gradcheck(lambda t, *rest: PoolEdges.apply(t.clone(), *rest, idx, pooling)[:2], tensors)


def test_finite_at_zero():
    fast, _ = pair()
    for points in (torch.zeros(3, 30, 3).double(), cloud()[:, :1].expand(3, 30, 3)):
        assert all(value.isfinite().all() for value in results(fast.train(), points).values())


def test_float32_and_odd_widths():
    """Channels that fill no whole task, and the rounding of float32."""
    fast, plain = pair()
    ours, theirs = fast.float().eval()(cloud().float()), plain.float().eval()(cloud().float())
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_copies():
    fast, _ = pair()
    expected = fast.eval()(cloud())
    assert torch.equal(copy.deepcopy(fast)(cloud()), expected)
    assert torch.equal(pickle.loads(pickle.dumps(fast))(cloud()), expected)
    twin = copy.deepcopy(fast).first
    assert twin._original[0][0] is twin[0]


def test_where_the_loops_do_not_run():
    """Exported graphs, and statistics that processes share, go by the generic rules."""
    fast, plain = pair()
    program = torch.export.export(fast.eval(), (cloud(),))
    torch.testing.assert_close(program.module()(cloud()), plain.eval()(cloud()), rtol=1e-9, atol=1e-10)
    x = from_real(cloud().transpose(1, 2), 1, Context(rules(), names={id(m): n for n, m in fast.model.named_modules()}))
    before = fast.first(x)
    synchronise(fast)
    torch.testing.assert_close(fast.first(x).components, before.components, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("options", [{"pooling": "winner"}, {"fused": False}])
def test_where_its_algebra_does_not_hold(options):
    net = revise(Net(0.2), cloud().float(), vector_axis=-1, rules=rules(**options))
    assert not any(isinstance(module, FullEdgeConv) for module in net.modules())


def test_statistics_alone_in_training_mode():
    """Calibration trains the batch-norms of a network that is otherwise in eval mode."""
    fast, _ = pair()
    fast.eval()
    norms = fast.first[1].train()
    count = int(norms.num_batches_tracked)
    fast(cloud())
    with torch.autocast("cpu", torch.bfloat16):  # by the generic rules
        fast.float()(cloud().float())
    assert norms.training
    assert int(norms.num_batches_tracked) == count + 2
