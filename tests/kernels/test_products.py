"""Products of rows with a matrix by a convolution, against the matrix product."""

import pytest
import torch

from equivariance import generator
from reqnn.kernels import products
from reqnn.kernels.products import times


def draw(shape, channels=24, dtype=torch.float32):
    rows = torch.randn(*shape, 40, generator=generator(0), dtype=dtype)
    return rows, torch.randn(channels, 40, generator=generator(1), dtype=dtype)


@pytest.fixture
def convolutions(monkeypatch):
    calls, convolve = [], products._convolve
    monkeypatch.setattr(products, "_convolve", lambda *args: calls.append(args) or convolve(*args))
    return calls


@pytest.mark.parametrize("shape", [(600,), (2, 300), (2, 1, 300, 3)])
def test_values_and_gradients(shape, convolutions):
    rows, weight = draw(shape)
    results = []
    for product in (times, torch.nn.functional.linear):
        a, w = rows.clone().requires_grad_(), weight.clone().requires_grad_()
        out = product(a, w)
        out.square().sum().backward()
        results.append((out, a.grad, w.grad))
    assert len(convolutions) == 2  # forward, and the gradient of the rows
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-2)


def test_gradients_of_gradients():
    rows, weight = draw((600,))
    found = []
    for product in (times, torch.nn.functional.linear):
        a = rows.clone().requires_grad_()
        (first,) = torch.autograd.grad(product(a, weight).square().sum(), a, create_graph=True)
        found += torch.autograd.grad(first.square().sum(), a)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1.0)
    assert found[0].abs().max() > 1e3


def test_where_the_convolution_does_not_serve_the_matrix_product_runs(convolutions):
    rows, weight = draw((600,))
    assert torch.equal(times(rows.double(), weight.double()), rows.double() @ weight.double().T)
    assert times(rows[:4], weight).shape == (4, 24)
    assert times(rows[::2], weight[:1]).shape == (300, 1)
    assert times(rows.reshape(2, 300, 40)[:, :257].transpose(0, 1), weight).shape == (257, 2, 24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert times(rows, weight).dtype == torch.bfloat16
    assert not convolutions
    assert len(times(rows, weight)) == 600
    assert len(convolutions) == 1


def test_a_graph_holds_plain_operations():
    class Net(torch.nn.Module):
        def forward(self, rows, weight):
            return times(rows, weight)

    program = torch.export.export(Net(), draw((600,)))
    assert "conv" not in str(program.graph)
