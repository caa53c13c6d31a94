"""Indices: each form against the same form on the three real parts; what cuts a vector raises."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor, from_real

from .componentwise import assert_componentwise, assert_follows, assert_same, numbers

SHAPE = (2, 4, 3, 5)
PICK = torch.tensor([0, 2, 2])
PAIRS = torch.tensor([[0, 1], [1, 0], [1, 1]])
MASK = torch.tensor([True, False, True, True])
MASK2 = torch.tensor([[True, False, True, True], [False, False, True, False]])

INDICES = {
    "int": 1,
    "negative": -1,
    "slice": slice(1, None),
    "step": (slice(None), slice(None, None, 2)),
    "None": None,
    "Ellipsis": ...,
    "Ellipsis int": (..., 0),
    "int Ellipsis int": (0, ..., -1),
    "None between": (slice(None), None, 1),
    "None after Ellipsis": (..., None),
    "empty tuple": (),
    "nothing": (slice(None), slice(0, 0)),
    "tensor": (slice(None), PICK),
    "2d tensor": PAIRS,
    "list": [1, 0, 1],
    "list inside": (slice(None), [0, 3]),
    "array": (slice(None), np.array([0, 3])),
    "0d tensor": (slice(None), torch.tensor(2)),
    "neighbouring tensors": (slice(None), PICK, PICK),
    "neighbouring, broadcast": (torch.arange(2).view(2, 1, 1), PAIRS.view(1, 3, 2)),
    "separated tensors": (PICK.clamp(max=1), slice(None), PICK),
    "separated 2d tensors": (PAIRS, slice(None), PAIRS),
    "separated by None": (PAIRS, None, PAIRS),
    "separated at the end": (slice(None), PICK, slice(None), PICK),
    "int beside tensor": (0, slice(None), PICK),
    "int between tensors": (PICK.clamp(max=1), 0, PICK),
    "tensor Ellipsis tensor": (PICK.clamp(max=1), ..., PICK),
    "mask": (slice(None), MASK),
    "mask of two axes": MASK2,
    "mask of all": torch.rand(SHAPE, generator=torch.Generator().manual_seed(0)) > 0.5,
    "mask and separated tensor": (slice(None), MASK, slice(None), PICK),
    "list of bools": (slice(None), [True, False, True, True]),
    "batch and points": (torch.arange(2)[:, None], torch.tensor([[0, 3, 3], [1, 2, 0]])),
}


@pytest.mark.parametrize("name", INDICES)
def test_getitem(name):
    assert_componentwise(lambda x: x[INDICES[name]], *SHAPE)


@pytest.mark.parametrize("name", INDICES)
def test_setitem(name):
    """x[index] = values, and x[index] = 0."""
    index = INDICES[name]

    def write(x):
        x = x.clone()
        x[index] = x[index] * 3
        return x

    def erase(x):
        x = x.clone()
        x[index] = 0
        return x

    assert_componentwise(write, *SHAPE)
    assert_componentwise(erase, *SHAPE)


def test_setitem_broadcasts():
    def write(x):
        y = x.clone()
        y[:, 1:3] = x[0, 0]
        y[..., 0] = x[:, :, :1, 1]
        return y

    assert_componentwise(write, *SHAPE)


OPERATIONS = {
    "select": lambda x: x.select(1, -1),
    "select by keyword": lambda x: torch.select(x, dim=2, index=0),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "narrow by keyword": lambda x: torch.narrow(x, dim=-1, start=0, length=3),
    "narrow from the end": lambda x: x.narrow(1, -2, 2),
    "unbind": lambda x: x.unbind(1),
    "unbind by keyword": lambda x: torch.unbind(x, dim=-1),
    "iteration": lambda x: list(x),
    "unpacking": lambda x: tuple(x),
    "index_select": lambda x: torch.index_select(x, 1, PICK),
    "index_select by keyword": lambda x: x.index_select(dim=-1, index=PICK),
    "gather": lambda x: x.gather(1, torch.ones(2, 6, 3, 5, dtype=torch.long)),
    "gather of fewer": lambda x: torch.gather(x, 3, torch.tensor([[[[4]]]])),
    "gather by keyword": lambda x: torch.gather(input=x, dim=1, index=torch.zeros(2, 1, 3, 5, dtype=torch.long)),
    "take_along_dim": lambda x: torch.take_along_dim(x, PICK.view(1, 1, 3, 1), 3),
    "take_along_dim of all": lambda x: torch.take_along_dim(x, PICK),
    "where": lambda x: torch.where(MASK.view(4, 1, 1), x, -x),
    "where 0": lambda x: torch.where(MASK.view(4, 1, 1), x, 0.0),
    "where 0 first": lambda x: torch.where(MASK.view(4, 1, 1), torch.zeros(()).double(), x),
    "where method": lambda x: x.where(MASK.view(4, 1, 1), x + x),
    "where by keyword": lambda x: torch.where(MASK.view(4, 1, 1), input=x, other=-x),
    "where broadcasts": lambda x: torch.where(torch.ones(7, 1, 1, 1, 1, dtype=torch.bool), x, x[:1]),
    "masked_fill": lambda x: x.masked_fill(MASK.view(4, 1, 1), 0),
    "masked_fill with a tensor": lambda x: torch.masked_fill(x, MASK.view(4, 1, 1), torch.tensor(0.0)),
    "masked_select": lambda x: torch.masked_select(x, MASK.view(4, 1, 1)),
    "index_add": lambda x: x.index_add(1, PICK, x[:, :3]),
    "index_add with alpha": lambda x: torch.index_add(x, 1, PICK, x[:, :3], alpha=-2),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([3, 0]), x[:, :2] * 5),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(1, torch.ones(2, 4, 3, 5, dtype=torch.long), x),
    "scatter_add of fewer": lambda x: x.scatter_add(1, torch.zeros(1, 2, 3, 1, dtype=torch.long), x),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_as_on_each_part(name):
    assert_componentwise(OPERATIONS[name], *SHAPE)


@given(st.data())
def test_any_mixture_of_indices(data):
    items = [
        data.draw(
            st.sampled_from([slice(None), slice(1, 2), 0, -1, torch.tensor([0, 1, 1]), torch.tensor([[1], [0]]), None, ...])
        )
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    index = tuple(item for i, item in enumerate(items) if item is not ... or ... not in [x for x in items[:i] if x is ...])
    assert_componentwise(lambda x: x[index], *SHAPE)


COORDINATES = {  # on (B, N, 6)
    "cloud": lambda x: x[0],
    "point": lambda x: x[:, 0],
    "first vector": lambda x: x[:, :, :3],
    "second vector": lambda x: x[:, :, 3:6],
    "negative": lambda x: x[..., :-3],
    "None": lambda x: x[:, None, :, :3],
    "points by tensor": lambda x: x[:, PICK],
    "points by mask": lambda x: x[:, MASK],
    "per cloud": lambda x: x[torch.arange(2)[:, None], torch.tensor([[0, 3], [1, 1]])],
    "per cloud and neighbour": lambda x: x[torch.arange(2).view(2, 1, 1), PAIRS[None].expand(2, 3, 2), :],
    "separated": lambda x: x[:, None][torch.tensor([0, 1]), :, torch.tensor([2, 3])],
    "index_select": lambda x: x.index_select(1, PICK),
    "index_select of channels": lambda x: x.index_select(2, torch.tensor([3, 4, 5])),
    "gather": lambda x: x.gather(1, PICK.view(1, 3, 1).expand(2, 3, 6)),
    "gather of repeated indices": lambda x: torch.gather(x, 1, torch.tensor([[1], [0]]).unsqueeze(-1).repeat(1, 1, 6)),
    "take_along_dim": lambda x: torch.take_along_dim(x, PICK.view(1, 3, 1), 1),
    "take_along_dim in full": lambda x: torch.take_along_dim(x, PICK.view(1, 3, 1).expand(2, 3, 6), 1),
    "narrow": lambda x: x.narrow(-1, 3, 3),
    "select": lambda x: x.select(1, 2),
    "unbind": lambda x: x.unbind(1),
    "where": lambda x: torch.where(MASK[:, None], x, 0),
    "where in full": lambda x: torch.where(MASK[:, None].expand(2, 4, 6), x, 0),
    "masked_fill": lambda x: x.masked_fill(MASK[:, None], 0),
    "masked_fill in full": lambda x: x.masked_fill(MASK[:, None].expand(2, 4, 6), 0),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_coordinates_are_followed(name):
    assert_follows(COORDINATES[name], 2, 4, 6)


def test_gather_of_channels_first():
    assert_follows(lambda x: x.gather(2, PICK.view(1, 1, 3).expand(2, 6, 3)), 2, 6, 4, axis=1)


def test_channels_first():
    assert_follows(lambda x: x[:, :3], 2, 6, 4, axis=1)
    assert_follows(lambda x: x[:, 3:6, 1], 2, 6, 4, axis=1)
    assert_follows(lambda x: x[:, :, PICK], 2, 6, 4, axis=1)


CUTS = {
    "a coordinate": lambda x: x[..., 0],
    "a negative coordinate": lambda x: x[..., -1],
    "x and y": lambda x: x[..., :2],
    "across vectors": lambda x: x[..., 1:4],
    "reordered": lambda x: x[..., [2, 1, 0]],
    "channels by mask": lambda x: x[..., torch.tensor([True, False, False, True, False, False])],
    "a mask of everything": lambda x: x[torch.ones(2, 4, 6, dtype=torch.bool)],
    "step": lambda x: x[..., ::3],
    "select": lambda x: x.select(-1, 2),
    "narrow": lambda x: x.narrow(-1, 2, 3),
    "unbind": lambda x: x.unbind(2),
    "index_select": lambda x: x.index_select(2, torch.tensor([0, 3])),
    "gather along": lambda x: x.gather(2, torch.zeros(2, 4, 1, dtype=torch.long)),
    "gather of one coordinate": lambda x: x.gather(1, torch.zeros(2, 4, 1, dtype=torch.long)),
    "gather of different points": lambda x: x.gather(1, torch.arange(6).remainder(4).expand(2, 1, 6)),
    "take_along_dim along": lambda x: torch.take_along_dim(x, torch.zeros(1, 1, 1, dtype=torch.long), 2),
    "take_along_dim of all": lambda x: torch.take_along_dim(x, PICK),
    "where per coordinate": lambda x: torch.where(torch.arange(6) > 2 - 1, x, 0),
    "masked_fill per coordinate": lambda x: x.masked_fill(torch.arange(6) > 3, 0),
    "masked_select": lambda x: x.masked_select(MASK[:, None]),
    "scatter_add along": lambda x: x.scatter_add(2, torch.zeros(2, 4, 6, dtype=torch.long), x),
    "assignment to one coordinate": lambda x: x.__setitem__((..., 0), 0),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_cuts_a_vector_raises(name):
    with pytest.raises(NoRuleError):
        CUTS[name](from_real(numbers(2, 4, 6), -1))


def _read_after_write(out, place, value):
    out[place] = value
    return out + out


OTHER_KINDS = {
    "where with numbers": lambda x: torch.where(MASK.view(4, 1, 1), x, 1.0),
    "where with a real tensor": lambda x: torch.where(MASK.view(4, 1, 1), x, torch.ones(SHAPE)),
    "where on quaternions": lambda x: torch.where(x, x, x),
    "masked_fill with a number": lambda x: x.masked_fill(MASK.view(4, 1, 1), 2.0),
    "assignment of numbers": lambda x: x.__setitem__(0, 1.0),
    "assignment of real numbers": lambda x: x.__setitem__(0, torch.ones(4, 3, 5).double()),
    "assignment into a part of a real tensor": lambda x: _read_after_write(torch.ones(SHAPE).double(), 0, x[0]),
    "quaternions as an index": lambda x: x[x],
    "scatter_add into a real tensor": lambda x: torch.ones(SHAPE).scatter_add(1, torch.zeros(SHAPE).long(), x),
    "index_add of real numbers": lambda x: x.index_add(1, PICK, torch.ones(2, 3, 3, 5)),
    "index_copy of real numbers": lambda x: x.index_copy(1, PICK, torch.ones(2, 3, 3, 5)),
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_kinds_do_not_mix(name):
    with pytest.raises(NoRuleError):
        OTHER_KINDS[name](QuaternionTensor(numbers(3, *SHAPE)))


def test_index_out_of_range():
    with pytest.raises(IndexError):
        QuaternionTensor(numbers(3, 2, 4))[5]
    with pytest.raises(IndexError):
        QuaternionTensor(numbers(3, 2, 4))[0, 0, 0]


def test_gradients_of_an_assignment():
    components = numbers(3, 2, 4).requires_grad_()
    x = QuaternionTensor(components * 2)
    x[:, 1] = x[:, 0] * 3
    x.squared_norm().sum().backward()
    expected = 8 * components.detach().clone()
    expected[:, :, 0] *= 10
    expected[:, :, 1] = 0
    torch.testing.assert_close(components.grad, expected)


def test_in_place_forms():
    def change(x):
        x = x.clone()
        x.masked_fill_(MASK.view(4, 1, 1), 0)
        x.index_add_(1, PICK, x[:, :3].clone())
        x.scatter_add_(1, torch.zeros(SHAPE, dtype=torch.long), x.clone())
        x.index_copy_(1, PICK[:1], x[:, 1:2].clone())
        return x

    components = numbers(3, *SHAPE)
    assert_same(change(QuaternionTensor(components)), [change(part) for part in components])
