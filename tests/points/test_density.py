import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reqnn.errors import InputError
from reqnn.kernels import run
from reqnn.points import density, kernels
from reqnn.points.density import plain_density

from .clouds import DTYPES, Quaternions, generic, moved, seeds

needs_kernels = pytest.mark.skipif(not run.enabled, reason="numba is missing or kernels are switched off")


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_the_formula(dtype):
    xyz = generic(0, 7, dtype=dtype)
    result = density(xyz, 0.5)
    assert result.dtype == dtype
    for b in range(2):
        for i in range(7):
            terms = [math.exp(-float((xyz[b, i] - x).square().sum()) / (2 * 0.25)) / (2.5 * 0.5) for x in xyz[b]]
            assert float(result[b, i]) == pytest.approx(sum(terms) / 7, rel=1e-5)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_does_not_change_with_orientation_or_order(dtype, error):
    xyz = generic(1, dtype=dtype)
    turned, order = moved(xyz, 1)
    torch.testing.assert_close(density(turned, 0.3), density(xyz, 0.3)[:, order], atol=error, rtol=0)


def test_gradcheck_also_at_duplicates():
    assert torch.autograd.gradcheck(lambda x: density(x, 0.7), (generic(2, 5).requires_grad_(),))
    xyz = generic(2, 3).repeat(1, 2, 1).requires_grad_()
    density(xyz, 0.7).sum().backward()
    assert xyz.grad is not None
    assert torch.isfinite(xyz.grad).all()


def test_one_point_and_quaternions():
    torch.testing.assert_close(density(torch.ones(1, 1, 3), 0.1), torch.tensor([[4.0]]))
    assert torch.equal(density(Quaternions(generic(0)), 0.1), density(generic(0), 0.1))


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), None])
def test_errors(bandwidth):
    with pytest.raises(InputError, match="bandwidth"):
        density(generic(0), bandwidth)


# -- the kernel ------------------------------------------------------------------------------------------------------


@needs_kernels
@given(
    seed=seeds,
    batch=st.integers(1, 3),
    points=st.integers(1, 40) | st.integers(100, 700),
    bandwidth=st.sampled_from([1e-6, 1e-2, 0.05, 0.1, 0.4, 3.0, 1e4]),
    shift=st.sampled_from([0.0, 10.0, -1e3]),
)
def test_kernel_gives_what_plain_torch_gives_in_double_precision(seed, batch, points, bandwidth, shift):
    xyz = (generic(seed, points, batch=batch) + shift).float()
    expected = plain_density(xyz.double(), bandwidth)
    found = density(xyz, bandwidth)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel_at_duplicates_lines_and_single_points(dtype):
    line = torch.linspace(0, 1, 400, dtype=dtype)[None, :, None] * torch.tensor([1.0, 0.0, 0.0], dtype=dtype)
    for xyz in (torch.ones(2, 300, 3, dtype=dtype), line, line[:, :1], torch.zeros(1, 129, 3, dtype=dtype)):
        for bandwidth in (1e-3, 0.1, 10.0):
            expected = plain_density(xyz.double(), bandwidth)
            torch.testing.assert_close(density(xyz, bandwidth).double(), expected, rtol=2e-6, atol=0)


@needs_kernels
def test_kernel_does_not_depend_on_order_strides_and_threads():
    xyz = generic(3, 900, batch=3, dtype=torch.float32)
    order = torch.randperm(900, generator=torch.Generator().manual_seed(0))
    once = density(xyz, 0.2)
    torch.testing.assert_close(density(xyz[:, order], 0.2), once[:, order], rtol=1e-6, atol=0)
    strided = xyz.mT.contiguous().mT
    assert torch.equal(density(strided, 0.2), once)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(density(xyz, 0.2), once)
    finally:
        torch.set_num_threads(threads)


def test_gradients_of_a_large_cloud_go_through_plain_torch():
    xyz = generic(4, 300).requires_grad_()
    out = density(xyz, 0.3)
    assert out.requires_grad
    torch.testing.assert_close(out.detach(), density(xyz.detach(), 0.3), rtol=1e-13, atol=0)
    with torch.no_grad():
        assert not density(xyz, 0.3).requires_grad


def test_without_kernels_and_where_they_stand_aside(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the kernel ran")

    monkeypatch.setattr(kernels, "sum_gaussians", refuse)
    xyz = generic(5, 20, dtype=torch.float32)
    density(xyz.double(), 0.3)  # float64 is for checks, not for speed
    density(xyz * 1e-20, 1e-20)  # the square of the bandwidth underflows
    density(xyz * 1e18, 1.0)  # squares of coordinates overflow
    monkeypatch.setattr("reqnn.kernels.run.enabled", False)
    assert torch.equal(density(xyz, 0.3), plain_density(xyz, 0.3))


def test_compile_sees_one_node_and_export_plain_operations():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    xyz = generic(6)
    torch._dynamo.reset()
    out = torch.compile(lambda x: density(x, 0.5), backend=backend, fullgraph=True)(xyz)
    torch.testing.assert_close(out, density(xyz, 0.5), rtol=1e-14, atol=0)
    assert [str(n.target) for n in graphs[0].graph.nodes if "reqnn" in str(n.target)] == ["reqnn.density.default"]
    torch.library.opcheck(torch.ops.reqnn.density.default, (xyz, 0.5))

    class Density(torch.nn.Module):
        def forward(self, x):
            return density(x, 0.5)

    program = torch.export.export(Density(), (xyz,))
    assert not any("reqnn" in str(n.target) for n in program.graph.nodes)
    torch.testing.assert_close(program.module()(xyz), density(xyz, 0.5), rtol=1e-14, atol=0)
