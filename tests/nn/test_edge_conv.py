"""The fused edge convolution against the operations it stands for, and its loops against their plain twins."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reqnn
from reqnn.nn import edge_kernels
from reqnn.nn.edge_conv import LongestEdges, QuaternionEdgeConv

PLAIN = reqnn.get_rules("paper").with_options(fused=False)


def tensors(seed, b, n, o, k, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    y, z = (torch.randn(b, n, 3, o, generator=g, dtype=dtype) for _ in range(2))
    idx = torch.stack([torch.stack([torch.randperm(n, generator=g)[:k] for _ in range(n)]) for _ in range(b)])
    return y, z, idx


sizes = given(seed=st.integers(0, 1000), b=st.integers(1, 3), n=st.integers(1, 12), o=st.integers(1, 70), k=st.integers(1, 12))


@sizes
def test_the_search_equals_its_plain_twin(seed, b, n, o, k):
    y, z, idx = tensors(seed, b, n, o, min(k, n))
    fast, plain = edge_kernels.search(y, z, idx), edge_kernels.search_reference(y, z, idx)
    assert torch.equal(fast[0], plain[0])
    for a, c in zip(fast[1:], plain[1:], strict=True):
        torch.testing.assert_close(a, c, rtol=1e-12, atol=1e-12)


@sizes
def test_the_way_back_equals_its_plain_twin(seed, b, n, o, k):
    y, z, idx = tensors(seed, b, n, o, min(k, n))
    winner, gradient, _ = edge_kernels.search_reference(y, z, idx)
    for weight in (None, y[0, 0, 0]):
        arguments = (y, z, idx, winner, gradient, weight)
        for a, c in zip(edge_kernels.pull(*arguments), edge_kernels.pull_reference(*arguments), strict=True):
            torch.testing.assert_close(a, c, rtol=1e-12, atol=1e-12)


def test_gradcheck():
    points, _, idx = tensors(0, 2, 5, 3, 3)
    weights = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (points, *weights)]
    assert torch.autograd.gradcheck(lambda *args: LongestEdges.apply(*args, idx, True), inputs)


def both(seed=0, **options):
    torch.manual_seed(seed)
    options = {"width": 0.125, "k": 6, "dropout": 0.0, "num_classes": 5} | options
    fused = reqnn.create_model("dgcnn", equivariant=True, **options).double()
    plain = reqnn.create_model("dgcnn", equivariant=True, rules=PLAIN, **options).double()
    plain.load_state_dict(fused.state_dict())
    return fused, plain


def trained(net, points, steps=3):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        net(points).square().sum().backward()
        optimizer.step()
    return net


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("shape", [(2, 40, 3), (3, 33, 3)])
def test_a_trained_network_agrees_with_the_plain_rules(mode, shape):
    points = torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    fused, plain = both()
    plain.load_state_dict(trained(fused, points).state_dict())
    fused.train(mode == "train")
    plain.train(mode == "train")
    outputs = [net(points) for net in (fused, plain)]
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)
    for net, out in zip((fused, plain), outputs, strict=True):
        net.zero_grad()
        (out * torch.arange(5.0, dtype=torch.float64)).sum().backward()
    for (name, a), b in zip(fused.named_parameters(), plain.parameters(), strict=True):
        assert (a.grad - b.grad).abs().max() <= 1e-10 * max(1.0, float(b.grad.abs().max())), name
    for a, b in zip(fused.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_where_the_algebra_does_not_hold_the_plain_rules_run():
    options = {"width": 0.125, "k": 6}
    mean = reqnn.create_model("dgcnn", equivariant=True, rules=reqnn.get_rules("paper").with_options(c="mean"), **options)
    assert not isinstance(mean.conv1, QuaternionEdgeConv)
    assert isinstance(reqnn.create_model("dgcnn", equivariant=True, **options).conv1, QuaternionEdgeConv)


def test_reports_and_copies():
    fused, plain = both()
    assert fused.report.operations == plain.report.operations
    points = torch.randn(2, 20, 3, dtype=torch.float64)
    assert torch.equal(copy.deepcopy(fused).eval()(points), fused.eval()(points))


def test_export_has_no_kernels_in_it():
    fused, _ = both()
    points = torch.randn(2, 20, 3, dtype=torch.float64)
    program = torch.export.export(fused.eval(), (points,))
    torch.testing.assert_close(program.module()(points), fused(points), rtol=1e-12, atol=1e-12)
