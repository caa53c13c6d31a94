"""Products of rows by oneDNN, against the matrix product."""

import pytest
import torch

from equivariance import generator
from reqnn.kernels import products
from reqnn.kernels.products import add_outer, add_times, outer, pairs, times


def draw(shape, channels=24, dtype=torch.float32):
    rows = torch.randn(*shape, 40, generator=generator(0), dtype=dtype)
    return rows, torch.randn(channels, 40, generator=generator(1), dtype=dtype)


@pytest.fixture(params=[True, False], autouse=True)
def ahead(request, monkeypatch):
    """On a CPU where oneDNN is ahead, and on one where it is not."""
    monkeypatch.setattr(products, "onednn_is_ahead", request.param)
    return request.param


@pytest.fixture
def calls(monkeypatch):
    """The products that oneDNN computes."""
    monkeypatch.setattr(products, "onednn_is_ahead", True)
    calls, linear = [], products._linear
    monkeypatch.setattr(products, "_linear", lambda *args: calls.append(args) or linear(*args))
    return calls


@pytest.mark.parametrize("shape", [(600,), (2, 300), (2, 1, 300, 3)])
def test_values_and_gradients(shape, calls):
    rows, weight = draw(shape)
    results = []
    for product in (times, torch.nn.functional.linear):
        a, w = rows.clone().requires_grad_(), weight.clone().requires_grad_()
        out = product(a, w)
        out.square().sum().backward()
        results.append((out, a.grad, w.grad))
    assert len(calls) == 2  # forward, and the gradient of the rows
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


def test_elsewhere_the_matrix_product_runs(calls):
    rows, weight = draw((600,))
    assert torch.equal(times(rows.double(), weight.double()), rows.double() @ weight.double().T)
    assert times(rows[:4], weight).shape == (4, 24)
    assert times(rows[::2], weight[:1]).shape == (300, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert times(rows, weight).dtype == torch.bfloat16
    assert not calls
    assert len(times(rows, weight)) == 600
    assert len(calls) == 1


@pytest.mark.parametrize("rows", [(600,), (607,), (2, 301, 3), (100,)])
def test_sums_of_outer_products(rows):
    a, b = draw(rows)[0], draw(rows)[0].flip(0)[..., :24]
    torch.testing.assert_close(outer(a, b), a.flatten(0, -2).T @ b.flatten(0, -2), rtol=1e-4, atol=1e-2)


def test_results_are_written_where_they_belong():
    rows, weight = draw((200, 3))
    out = torch.zeros(210, 3, 24)
    assert times(rows, weight, out[5:205]).data_ptr() == out[5].data_ptr()
    torch.testing.assert_close(out[5:205], rows @ weight.T, rtol=1e-4, atol=1e-4)
    assert not out[:5].any()
    assert not out[205:].any()


def test_rows_in_any_order():
    rows, weight = draw((2, 600))
    swapped = rows.transpose(0, 1)
    torch.testing.assert_close(times(swapped, weight), swapped @ weight.T, rtol=1e-4, atol=1e-4)


def test_a_graph_holds_plain_operations():
    class Net(torch.nn.Module):
        def forward(self, rows, weight):
            return times(rows, weight)

    program = torch.export.export(Net(), draw((600,)))
    assert "mkldnn" not in str(program.graph)


@pytest.mark.parametrize("shape", [(2, 600), (2, 3, 600), (600,), (2, 20)])
def test_all_pairs_of_rows(shape, calls):
    """Matrix by matrix if they are many and large, else as torch does."""
    rows, _ = draw(shape)
    others = rows.flip(-2)[..., :50, :]
    results = []
    for product in (pairs, lambda a, b: a @ b.mT):
        a, b = rows.clone().requires_grad_(), others.clone().requires_grad_()
        out = product(a, b)
        out.square().sum().backward()
        results.append((out, a.grad, b.grad))
    assert bool(calls) == (len(shape) > 1 and shape[-1] == 600)
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_added_to_what_is_there():
    rows, weight = draw((600, 3))
    other = torch.randn(600, 3, 24, generator=generator(2))
    total, weights = torch.ones(600, 3, 24), torch.ones(24, 40)
    assert add_times(total, rows, weight) is total
    torch.testing.assert_close(total, 1 + rows @ weight.T, rtol=1e-4, atol=1e-4)
    assert add_outer(weights, other, rows) is weights
    torch.testing.assert_close(weights, 1 + other.flatten(0, 1).T @ rows.flatten(0, 1), rtol=1e-4, atol=1e-3)
