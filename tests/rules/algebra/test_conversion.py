"""Copies, casts and questions."""

import pytest
import torch

from equivariance import cloud, draw
from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor, from_real

from .componentwise import assert_componentwise, assert_follows, numbers

COPIES = {
    "clone": lambda x: x.clone(),
    "clone with a format": lambda x: torch.clone(x, memory_format=torch.contiguous_format),
    "detach": lambda x: x.detach(),
    "torch.detach": torch.detach,
    "data": lambda x: x.data,
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "contiguous with a format": lambda x: x.contiguous(memory_format=torch.contiguous_format),
    "to dtype": lambda x: x.to(torch.float64),
    "to device": lambda x: x.to("cpu"),
    "to both": lambda x: x.to(device="cpu", dtype=torch.float64),
    "to another": lambda x: x.to(torch.zeros(1).double()),
    "to itself": lambda x: x.to(x),
    "double": lambda x: x.double(),
    "cpu": lambda x: x.cpu(),
    "type": lambda x: x.type(torch.float64),
    "type_as": lambda x: x.type_as(torch.zeros(1).double()),
    "type_as itself": lambda x: x.type_as(x),
    "requires_grad_": lambda x: x.clone().requires_grad_(False),
    "nan_to_num": lambda x: x.nan_to_num(),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies(name):
    assert_componentwise(COPIES[name], 2, 4, 3)
    if name != "contiguous":
        assert_follows(COPIES[name], 2, 4, 6)


def test_casts():
    x = draw(0, 2, 4)
    assert x.float().dtype == x.to(torch.float32).components.dtype == torch.float32
    assert x.half().dtype == torch.float16
    assert x.bfloat16().dtype == torch.bfloat16
    assert x.type() == "torch.DoubleTensor"
    assert x.to(x.float()).dtype == torch.float32
    assert torch.zeros(2).to(x).dtype == torch.float64
    assert type(torch.zeros(2).to(x)) is torch.Tensor


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.long(),
        lambda x: x.int(),
        lambda x: x.to(torch.int32),
        lambda x: x.type(torch.long),
        lambda x: x.bool(),
    ],
)
def test_rounding_to_integers_raises(operation):
    with pytest.raises(NoRuleError):
        operation(cloud(0, 2, 4, 3))


def test_questions_are_answered_in_channels():
    x = from_real(numbers(2, 5, 6), -1)
    assert x.shape == x.size() == torch.Size([2, 5, 6])
    assert (x.size(1), x.size(-1), x.shape[2], x.size(dim=0)) == (5, 6, 6, 2)
    assert x.dim() == x.ndim == x.ndimension() == 3
    assert x.numel() == x.nelement() == torch.numel(x) == 60
    assert len(x) == 2
    assert x.is_floating_point()
    assert torch.is_floating_point(x)
    assert not x.is_complex()
    assert torch.is_tensor(x)
    assert x.dtype == torch.float64
    assert x.device == torch.device("cpu")
    assert x.get_device() == -1
    assert not x.is_cuda
    assert not x.requires_grad
    assert x.is_same_size(torch.empty(2, 5, 6))
    assert torch.result_type(x, 1) == torch.float64
    batch, points, channels = x.shape
    assert (batch, points, channels) == (2, 5, 6)


def test_new_tensors_are_real():
    x = draw(0, 2, 4)
    for new in (x.new_zeros(3), x.new_ones(2, 2), x.new_full((2,), 3.0), x.new_tensor([1.0]), x.new_empty(1)):
        assert type(new) is torch.Tensor
        assert new.dtype == torch.float64


def test_gradients_pass_through_copies_and_stop_at_detach():
    components = numbers(3, 2, 4).requires_grad_()
    x = QuaternionTensor(components)
    assert x.requires_grad
    assert x.clone().requires_grad
    assert not x.detach().requires_grad
    (x.clone() * 2 + x.detach()).squared_norm().sum().backward()
    torch.testing.assert_close(components.grad, 12 * components.detach())


def test_requires_grad_is_set_on_the_parts():
    x = draw(0, 2, 4)
    x.requires_grad_()
    assert x.components.requires_grad
    x.requires_grad = False
    assert not x.components.requires_grad


def test_text():
    assert "vector (3 channels) ×1 on axis 2" in repr(cloud(0, 2, 4, 3))
    assert "shape=(2, 4, 3)" in str(cloud(0, 2, 4, 3))
    assert "QuaternionTensor" in f"{draw(0, 2)}"


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: x[0, 0].item(),
        bool,
        lambda x: float(x[0, 0]),
        lambda x: x.grad,
    ],
)
def test_no_plain_numbers_come_out(operation):
    with pytest.raises(NoRuleError):
        operation(draw(0, 2, 4))
