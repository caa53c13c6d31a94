"""The one-pass ReLU against plain torch: values, gradients, and gradients of gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reqnn.nn.activation import relu, relu_reference


@given(
    seed=st.integers(0, 1000),
    shape=st.lists(st.integers(1, 6), min_size=0, max_size=4),
    place=st.integers(0, 4),
    c=st.sampled_from([0.3, 1.0, 5.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_equals_plain_torch_in_any_memory_order(seed, shape, place, c, dtype):
    generator = torch.Generator().manual_seed(seed)
    place = min(place, len(shape))
    x = torch.randn(*shape[:place], 3, *shape[place:], generator=generator, dtype=dtype).movedim(place, 0)
    x = (x * (torch.rand(x.shape[1:], generator=generator) > 0.2)).requires_grad_()
    fast, plain = relu(x, c), relu_reference(x, c)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-14}
    torch.testing.assert_close(fast, plain, **tolerance)
    gradient = torch.randn(x.shape, generator=generator, dtype=dtype)
    (a,), (b,) = (torch.autograd.grad(out, x, gradient) for out in (fast, plain))
    torch.testing.assert_close(a, b, **tolerance)


def test_gaps_in_memory():
    x = torch.randn(3, 4, 10, dtype=torch.float64)[:, ::2, 1:8]
    torch.testing.assert_close(relu(x, 1.0), relu_reference(x, 1.0), rtol=1e-13, atol=0)


def test_second_derivatives():
    x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: relu(v, 1.0), (x,))
    assert torch.autograd.gradgradcheck(lambda v: relu(v, 1.0), (x,))


def test_at_zero_and_at_c():
    x = torch.zeros(3, 2, dtype=torch.float64)
    x[0, 1] = 1.0
    x.requires_grad_()
    relu(x, 1.0).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.equal(x.grad[:, 0], torch.zeros(3, dtype=torch.float64))


def test_without_kernels(monkeypatch):
    x = torch.randn(3, 5, dtype=torch.float64)
    expected = relu(x, 1.0)
    monkeypatch.setattr("reqnn.kernels.run.enabled", False)
    torch.testing.assert_close(relu(x, 1.0), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_takes_the_plain_way(dtype):
    x = torch.randn(3, 5).to(dtype)
    assert relu(x, 1.0).dtype == dtype
