"""The factorised edge convolution against the plain block, and its loops against their plain twins."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import reqnn
from reqnn.errors import InputError
from reqnn.models.dgcnn import EdgeConv
from reqnn.models.factorised import factorise
from reqnn.models.grouping import get_graph_feature
from reqnn.nn import real_edge_kernels as edge_kernels
from reqnn.nn.real_edge_conv import FactorisedEdgeConv, WinningEdges, WinningEdgesAndMoments
from reqnn.points import kernels

PATHS = [
    pytest.param(True, marks=pytest.mark.skipif(not kernels.available(), reason="numba is missing"), id="kernels"),
    pytest.param(False, id="plain torch"),
]


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    """With the compiled loops, and without."""
    if not request.param:
        monkeypatch.setattr(edge_kernels, "loops_run_on", lambda x: False)


def plain_block(seed, inputs, outputs, k, dtype=torch.float64, **norm):
    """A block as it may look after training: gammas of both signs, one in four zero, running statistics of some data."""
    torch.manual_seed(seed)
    block = EdgeConv(inputs, nn.BatchNorm2d(outputs, **norm), k).to(dtype)
    with torch.no_grad():
        if block[1].weight is not None:
            block[1].weight.copy_(torch.randn(outputs) * (torch.rand(outputs) > 0.25))
            block[1].bias.copy_(torch.randn(outputs))
        if block[1].running_mean is not None:
            block[1].running_mean.copy_(torch.randn(outputs))
            block[1].running_var.copy_(torch.rand(outputs) + 0.5)
    return block


def cloud(seed, b, c, n, dtype=torch.float64):
    return torch.randn(b, c, n, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64).to(dtype)


def results(block, x, weight):
    """Output, the gradients of input and parameters, and the buffers afterwards."""
    x = x.clone().requires_grad_()
    out = block(x)
    (out * weight).sum().backward()
    gradients = {name: p.grad for name, p in block.named_parameters()}
    return {"out": out.detach(), "x": x.grad, **gradients, **dict(block.named_buffers())}


def ties(block, x):
    """How many winners another edge equals or nearly equals, zero gammas aside: there the choice is free."""
    with torch.no_grad():
        edge = block[0](get_graph_feature(x, block.k))
    if block[1].weight is not None:
        edge = (edge * block[1].weight.sign()[:, None, None])[:, block[1].weight != 0]
    if edge.shape[-1] == 1 or edge.numel() == 0:
        return 0
    best = edge.topk(2, dim=-1)[0]
    return int((best[..., 0] - best[..., 1] < 1e-9).sum())


def assert_same(block, x, weight):
    """The factorised block gives the numbers of the plain one, for results of size 1 to 1e-10."""
    fast = FactorisedEdgeConv.from_block(copy.deepcopy(block))
    assert ties(block, x) == 0  # drawn numbers do not tie
    expected, found = results(block, x, weight), results(fast, x, weight)
    assert list(expected) == list(found)
    for name, value in expected.items():
        if value is not None:
            error = (found[name] - value).abs().max()
            assert error <= 1e-10 * max(1.0, float(value.abs().max())), name


shapes = given(
    seed=st.integers(0, 10_000),
    b=st.integers(1, 3),
    c=st.integers(1, 6),
    n=st.integers(2, 14),
    o=st.integers(1, 70),
    k=st.integers(1, 14),
)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("kernel", PATHS)
@shapes
def test_outputs_gradients_and_statistics(kernel, mode, seed, b, c, n, o, k):
    block, x = plain_block(seed, c, o, min(k, n)).train(mode == "train"), cloud(seed, b, c, n)
    with pytest.MonkeyPatch.context() as patch:
        if not kernel:
            patch.setattr(edge_kernels, "loops_run_on", lambda x: False)
        assert_same(block, x, cloud(seed + 1, b, o, n))


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_one_sign_of_gamma(path, mode, sign):
    block = plain_block(0, 4, 9, 5).train(mode == "train")
    with torch.no_grad():
        block[1].weight.copy_(sign * (block[1].weight.abs() + 0.1))
    assert_same(block, cloud(0, 2, 4, 12), cloud(2, 2, 9, 12))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("norm", [{"affine": False}, {"track_running_stats": False}, {"momentum": None}, {"momentum": 0.5}])
def test_kinds_of_batch_norm(path, mode, norm):
    assert_same(plain_block(3, 3, 8, 4, **norm).train(mode == "train"), cloud(3, 2, 3, 10), cloud(4, 2, 8, 10))


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_single_precision_also_far_from_the_origin(path, offset):
    """Against float64: the error is that of rounding the input's own size, as in the plain block."""
    block = plain_block(5, 3, 32, 8).train()
    x = (cloud(5, 2, 3, 64) + offset).float().double()
    expected = results(copy.deepcopy(block), x, cloud(6, 2, 32, 64))
    weight = cloud(6, 2, 32, 64).float()
    found = results(FactorisedEdgeConv.from_block(copy.deepcopy(block).float()), x.float(), weight)
    plain = results(copy.deepcopy(block).float(), x.float(), weight)
    for name in ("out", "1.running_mean", "1.running_var"):
        scale = float(expected[name].abs().max())
        error, usual = (float((r[name].double() - expected[name]).abs().max()) / scale for r in (found, plain))
        assert error <= 5e-6 * max(1.0, offset / 10), name
        assert error <= 20 * usual + 1e-6, name  # no worse than the ordinary way, in its order of magnitude


def test_statistics_do_not_cancel(path):
    """Edges of size 1 about a mean of 10⁴: E e² − (E e)² in single precision would have no digit left."""
    g = torch.Generator().manual_seed(0)
    y, z = (torch.randn(2, 50, 8, generator=g) for _ in range(2))
    idx = torch.randint(0, 50, (2, 50, 6), generator=g)
    _, mean, variance = WinningEdgesAndMoments.apply(y + 1e4, z, idx, torch.ones(8))
    edges = torch.stack([(y + 1e4)[b][idx[b]] + z[b][:, None] for b in range(2)]).double()
    torch.testing.assert_close(mean.double(), edges.mean((0, 1, 2)), rtol=1e-6, atol=0)
    torch.testing.assert_close(variance.double(), edges.var((0, 1, 2), correction=0), rtol=1e-4, atol=0)


def edges(seed, b, n, o, k):
    g = torch.Generator().manual_seed(seed)
    y, z = (torch.randn(b, n, o, generator=g, dtype=torch.float64) for _ in range(2))
    return y, z, torch.randint(0, n, (b, n, k), generator=g), torch.randint(-1, 2, (o,), generator=g).double()


@pytest.mark.skipif(not kernels.available(), reason="numba is missing")
@given(seed=st.integers(0, 999), b=st.integers(1, 3), n=st.integers(1, 40), o=st.integers(1, 130), k=st.integers(1, 9))
def test_loops_equal_their_plain_twins(seed, b, n, o, k):
    y, z, idx, sign = edges(seed, b, n, o, k)
    shift, slope, level = y[0, 0], z[0, 0], y[0, 0] - 1

    def every():
        winner, edge, *sums = edge_kernels.search_and_sum(y, z, idx, sign, shift)
        return (
            winner,
            *edge_kernels.search(y, z, idx, sign),
            edge,
            *sums,
            edge_kernels.scatter(z, winner, idx),
            edge_kernels.spread(y, winner, y, z, idx, shift, slope, level),
        )

    fast = every()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_kernels, "loops_run_on", lambda x: False)
        plain = every()
    for a, c in zip(fast, plain, strict=True):
        assert a.dtype == c.dtype
        torch.testing.assert_close(a, c, rtol=1e-11, atol=1e-11)


def test_gradcheck(path):
    y, z, idx, sign = edges(0, 2, 5, 6, 3)
    inputs = (y.requires_grad_(), z.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: WinningEdges.apply(a, b, idx, sign), inputs)
    assert torch.autograd.gradcheck(lambda a, b: WinningEdgesAndMoments.apply(a, b, idx, sign), inputs)


def test_a_gradient_of_the_gradient_is_refused_not_wrong(path):
    x = cloud(0, 1, 3, 8).requires_grad_()
    block = FactorisedEdgeConv.from_block(plain_block(0, 3, 4, 3))
    (gradient,) = torch.autograd.grad(block(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.square().sum().backward()


def test_many_neighbours_and_threads(path):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert_same(plain_block(7, 2, 5, 300).train(), cloud(7, 1, 2, 310), cloud(8, 1, 5, 310))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_trained_network(path, mode):
    torch.manual_seed(0)
    model = reqnn.create_model("dgcnn", width=0.125, k=6, dropout=0.0, num_classes=5).double()
    points = torch.randn(3, 30, 3, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(points), torch.tensor([0, 3, 1])).backward()
        optimizer.step()
    with torch.no_grad():
        for norm in (model.bn1, model.bn2, model.bn3, model.bn4):
            norm.weight.mul_(torch.randn(norm.weight.shape).sign())
    model.train(mode == "train")
    model.zero_grad()
    fast = factorise(model)
    assert isinstance(fast.conv3, FactorisedEdgeConv)
    assert fast.conv3[1] is fast.bn3
    assert isinstance(model.conv3, EdgeConv)
    weight = torch.arange(5.0, dtype=torch.float64)
    expected, found = results(model, points, weight), results(fast, points, weight)
    assert list(expected) == list(found)
    for name, value in expected.items():
        assert (found[name] - value).abs().max() <= 1e-10 * max(1.0, float(value.abs().max())), name


def test_shares_the_parameters_of_its_block():
    block = plain_block(0, 3, 4, 2)
    fast = FactorisedEdgeConv.from_block(block)
    assert [id(p) for p in fast.parameters()] == [id(p) for p in block.parameters()]
    assert list(fast.state_dict()) == list(block.state_dict())
    assert isinstance(factorise(block), FactorisedEdgeConv)


def test_refusals():
    norm, convolution = nn.BatchNorm2d(4), nn.Conv2d(6, 4, 1, bias=False)
    for activation in (nn.GELU(), nn.LeakyReLU(-0.1), nn.Sigmoid()):
        with pytest.raises(InputError, match="never falls"):
            FactorisedEdgeConv(convolution, norm, activation, 2)
    with pytest.raises(InputError, match="bias"):
        FactorisedEdgeConv(nn.Conv2d(6, 4, 1), norm, nn.ReLU(), 2)
    with pytest.raises(InputError, match="variance"):
        FactorisedEdgeConv(convolution, norm, nn.ReLU(), 1)(torch.randn(1, 3, 1))


def test_export_has_no_kernels_in_it():
    model = factorise(reqnn.create_model("dgcnn", width=0.125, k=6)).eval()
    points = torch.randn(2, 20, 3)
    program = torch.export.export(model, (points,))
    torch.testing.assert_close(program.module()(points), model(points), rtol=1e-5, atol=1e-5)
