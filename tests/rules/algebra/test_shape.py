"""Shapes: each operation against the same operation on the three real parts, and on raw coordinates."""

import einops
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor, from_real

from .componentwise import assert_componentwise, assert_follows, numbers

SHAPE = (2, 4, 3, 6)
OTHER = torch.empty(2, 12, 6)

OPERATIONS = {
    "view": lambda x: x.view(2, -1, 6),
    "view of a tuple": lambda x: x.view((8, 18)),
    "view of torch.Size": lambda x: x.view(torch.Size([6, 24])),
    "view_as": lambda x: x.view_as(OTHER),
    "reshape": lambda x: torch.reshape(x, (2, 3, 4, 6)),
    "reshape by keyword": lambda x: torch.reshape(x, shape=(-1,)),
    "reshape method": lambda x: x.reshape(4, 36),
    "reshape of a transpose": lambda x: x.transpose(1, 3).reshape(2, -1),
    "reshape_as": lambda x: x.reshape_as(OTHER),
    "flatten": lambda x: x.flatten(),
    "flatten(1)": lambda x: torch.flatten(x, 1),
    "flatten by keyword": lambda x: x.flatten(start_dim=1, end_dim=2),
    "flatten(-2)": lambda x: torch.flatten(x, start_dim=-2),
    "ravel": lambda x: x.ravel(),
    "nn.Flatten": nn.Flatten(),
    "nn.Unflatten": nn.Unflatten(1, (2, 2)),
    "unflatten": lambda x: x.unflatten(-1, (2, 3)),
    "unflatten(-1)": lambda x: torch.unflatten(x, 1, (2, -1)),
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze(1)": lambda x: x[:, :1, :1].squeeze(1),
    "squeeze of two": lambda x: torch.squeeze(x[:, :1, :1], (1, 2)),
    "squeeze of a wide axis": lambda x: x.squeeze(1),
    "squeeze by keyword": lambda x: x[..., :1].squeeze(dim=-1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze(-1)": lambda x: torch.unsqueeze(x, -1),
    "unsqueeze(4)": lambda x: x.unsqueeze(dim=4),
    "permute": lambda x: x.permute(0, 3, 1, 2),
    "permute of a tuple": lambda x: torch.permute(x, (3, -2, 0, 1)),
    "permute by keyword": lambda x: torch.permute(x, dims=(1, 0, 3, 2)),
    "transpose": lambda x: x.transpose(1, -1),
    "transpose by keyword": lambda x: torch.transpose(x, dim0=0, dim1=2),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "swapdims": lambda x: torch.swapdims(x, 0, 1),
    "t": lambda x: x[0, 0].t(),
    "T": lambda x: x[0, 0].T,
    "mT": lambda x: x.mT,
    "adjoint": lambda x: x.adjoint(),
    "movedim": lambda x: x.movedim(1, -1),
    "movedim of two": lambda x: torch.movedim(x, (0, 1), (-1, 0)),
    "moveaxis": lambda x: torch.moveaxis(x, source=-1, destination=0),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1, -1),
    "expand of a tuple": lambda x: x[:, :1].expand((2, 5, 3, 6)),
    "expand with new axes": lambda x: x[:, :1].expand(7, 2, 5, 3, 6),
    "expand_as": lambda x: x[:, :1].expand_as(torch.empty(SHAPE)),
    "broadcast_to": lambda x: torch.broadcast_to(x[:1], (9, 4, 3, 6)),
    "broadcast_to by keyword": lambda x: torch.broadcast_to(x[:1], size=(9, 4, 3, 6)),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x[:1], x[:, :1]),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "repeat with new axes": lambda x: x.repeat((5, 1, 1, 1, 2)),
    "tile": lambda x: torch.tile(x, (2, 3)),
    "tile by keyword": lambda x: torch.tile(x, dims=(2,)),
    "tile with new axes": lambda x: x.tile(2, 1, 1, 1, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "repeat_interleave by counts": lambda x: torch.repeat_interleave(x, torch.tensor([1, 0, 2]), dim=2),
    "repeat_interleave of all": lambda x: x.repeat_interleave(2),
    "cat": lambda x: torch.cat([x, x + x], dim=1),
    "cat with axis": lambda x: torch.cat((x, x), axis=-1),
    "cat by keyword": lambda x: torch.cat(tensors=[x, -x], dim=2),
    "cat with nothing": lambda x: torch.cat([torch.empty(0), x]),
    "concat": lambda x: torch.concat([x, x]),
    "concatenate": lambda x: torch.concatenate([x, x], dim=1),
    "stack": lambda x: torch.stack([x, -x]),
    "stack(-1)": lambda x: torch.stack((x, -x), dim=-1),
    "stack(2)": lambda x: torch.stack((x, -x), 2),
    "hstack": lambda x: torch.hstack([x, x]),
    "hstack of rows": lambda x: torch.hstack([x[0, 0, 0], x[0, 0, 1]]),
    "vstack": lambda x: torch.vstack([x, x]),
    "vstack of rows": lambda x: torch.vstack([x[0, 0, 0], x[0, 0, 1]]),
    "split": lambda x: x.split(4, dim=-1),
    "split by sizes": lambda x: torch.split(x, [1, 3], 1),
    "split by keyword": lambda x: torch.split(x, split_size_or_sections=2, dim=1),
    "split method by keyword": lambda x: x.split(split_size=2, dim=1),
    "split_with_sizes": lambda x: x.split_with_sizes([2, 4], -1),
    "chunk": lambda x: x.chunk(4, dim=3),
    "chunk by keyword": lambda x: torch.chunk(x, chunks=2, dim=1),
    "tensor_split": lambda x: torch.tensor_split(x, 4, dim=-1),
    "tensor_split at": lambda x: x.tensor_split((1, 4), dim=3),
    "tensor_split at negative": lambda x: x.tensor_split((1, -2), dim=3),
    "roll": lambda x: torch.roll(x, 2, dims=1),
    "roll of two": lambda x: x.roll(shifts=(1, -1), dims=(0, 3)),
    "roll of all": lambda x: x.roll(5),
    "flip": lambda x: torch.flip(x, [1, -1]),
    "flip method": lambda x: x.flip(0, 1),
    "flip by keyword": lambda x: torch.flip(x, dims=(2,)),
    "fliplr": lambda x: x.fliplr(),
    "flipud": lambda x: x.flipud(),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad of two axes": lambda x: F.pad(x, (1, 0, 2, 1), "constant", 0.0),
    "pad negative": lambda x: F.pad(x, (-1, 0)),
    "pad by reflection": lambda x: F.pad(x, (1, 1, 1, 0), mode="reflect"),
    "pad circularly": lambda x: F.pad(x[0], (2, 1), mode="circular"),
    "nn.ZeroPad2d": nn.ZeroPad2d(1),
    "nn.ReplicationPad2d": nn.ReplicationPad2d((1, 2, 0, 1)),
    "nn.Identity": nn.Identity(),
    "unfold": lambda x: x.unfold(3, 3, 2),
    "einops.rearrange": lambda x: einops.rearrange(x, "b c h (w v) -> (b w) (h c) v", v=2),
    "einops.repeat": lambda x: einops.repeat(x, "b c h w -> b r (c s) h w", r=2, s=3),
    "einops.reduce": lambda x: einops.reduce(x, "b c h w -> b c", "mean"),
    "einops.reduce by sum": lambda x: einops.reduce(x, "b (c r) h w -> b c h ()", "sum", r=2),
    "einops.pack": lambda x: einops.pack([x, x[:, 0]], "b * w")[0],
    "einops.einsum": lambda x: einops.einsum(x, numbers(4, 5, seed=1), "b c h w, c d -> b d h w"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_as_on_each_part(name):
    assert_componentwise(OPERATIONS[name], *SHAPE)


@pytest.mark.parametrize("operation", [lambda x: x.flatten(), lambda x: x.reshape(1, 1), lambda x: x[None], torch.squeeze])
def test_single_numbers(operation):
    assert_componentwise(operation)


COORDINATES = {  # on (B, N, 9): three vectors a point
    "a vector": lambda x: x[:, :, :3],
    "another vector": lambda x: x[..., 3:6],
    "the rest": lambda x: x[:, :, 3:],
    "from the end": lambda x: x[:, :, -3:],
    "view as points": lambda x: x.view(2, 4, 3, 3),
    "view with 1": lambda x: x[:, :, :3].reshape(2, 4, 1, 3),
    "view rows": lambda x: x.reshape(8, 9),
    "view of a view": lambda x: x.view(2, 12, 3).view(2, 4, 9),
    "flatten": lambda x: x.flatten(1),
    "transpose": lambda x: x.transpose(1, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "unsqueeze before": lambda x: x.unsqueeze(1),
    "unsqueeze after": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "expand": lambda x: x.unsqueeze(1).expand(-1, 5, -1, -1),
    "expand to the full shape": lambda x: x.unsqueeze(1).expand(2, 5, 4, 9),
    "repeat": lambda x: x.repeat(1, 2, 2),
    "repeat_interleave of points": lambda x: x.repeat_interleave(3, 1),
    "cat of points": lambda x: torch.cat([x, x], 1),
    "cat of channels": lambda x: torch.cat([x[:, :, :3], x], -1),
    "stack": lambda x: torch.stack([x, x], 1),
    "split": lambda x: x.split(3, -1),
    "split by sizes": lambda x: x.split([6, 3], 2),
    "chunk": lambda x: x.chunk(3, -1),
    "tensor_split": lambda x: x.tensor_split((3,), -1),
    "roll of points": lambda x: x.roll(1, 1),
    "flip of points": lambda x: x.flip(1),
    "pad of points": lambda x: F.pad(x, (0, 0, 1, 2)),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "mean": lambda x: x.mean(1),
    "sum": lambda x: x.sum(1, keepdim=True),
    "centred": lambda x: x - x.mean(dim=1, keepdim=True),
    "rearrange": lambda x: einops.rearrange(x, "b n (v c) -> (b n) v c", c=3),
    "rearrange to channels first": lambda x: einops.rearrange(x, "b n c -> b c n"),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_coordinates_are_followed(name):
    assert_follows(COORDINATES[name], 2, 4, 9)


CUTS = {
    "view": lambda x: x.view(2, 2, 2, 9).view(2, 4, 9).view(2, 18, 2),
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1),
    "roll of all": lambda x: x.roll(1),
    "split": lambda x: x.split(2, -1),
    "chunk": lambda x: x.chunk(2, -1),
    "unbind": lambda x: x.unbind(-1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, -1),
    "pad": lambda x: F.pad(x, (0, 1)),
    "unfold": lambda x: x.unfold(-1, 3, 3),
    "rearrange": lambda x: einops.rearrange(x, "(b m) (n k) c -> b (n c m) k", m=2, k=2),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_cuts_a_vector_raises(name):
    with pytest.raises(NoRuleError):
        CUTS[name](from_real(numbers(2, 4, 9), -1))


def test_coordinates_beside_features_come_back():
    xyz, features = from_real(numbers(2, 3, 5), 1), QuaternionTensor(numbers(3, 2, 7, 5))
    both = torch.cat([xyz, features], 1)
    assert both.shape == (2, 10, 5)
    assert torch.equal(both[:, :3].as_real(), xyz.as_real())
    assert torch.equal(both[:, 3:].components, features.components)
    first, rest = both.split([3, 7], 1)
    assert torch.equal(first.as_real(), xyz.as_real())
    assert rest.axis is None
    assert torch.equal(torch.cat([features, xyz], 1)[:, -3:].as_real(), xyz.as_real())
    with pytest.raises(NoRuleError):
        both[:, 2:]


def test_channels_first_flattened_and_sliced_by_cloud():
    """(B, 3, N) → (B, 3N) → one cloud: x, y, z no longer stand side by side, and nothing cuts them."""
    flat = from_real(numbers(2, 3, 5), 1).flatten(1)
    assert flat.shape == (2, 15)
    assert flat[0].shape == (15,)
    assert flat[:, :].shape == (2, 15)
    with pytest.raises(NoRuleError):
        flat[:, :3]


def test_different_axes_of_coordinates_do_not_join():
    x = from_real(numbers(2, 3, 3), 1)
    with pytest.raises(NoRuleError):
        torch.cat([x, x.transpose(1, 2)], 0)


@pytest.mark.parametrize("value", [1.0, -1])
def test_padding_with_a_number(value):
    with pytest.raises(NoRuleError, match="other than 0"):
        F.pad(QuaternionTensor(numbers(3, 2, 4)), (1, 1), value=value)


@pytest.mark.parametrize(
    "operation",
    [lambda x: x.unsqueeze(5), lambda x: x.transpose(0, 3), lambda x: x.squeeze(4), lambda x: torch.stack([x, x], 5)],
)
def test_axes_out_of_range(operation):
    with pytest.raises(IndexError):
        operation(QuaternionTensor(numbers(3, 2, 4)))


def test_real_tensors_take_the_shape_of_features():
    """A gate: x * gate.expand_as(x)."""
    gate, x = numbers(2, 4, 1), QuaternionTensor(numbers(3, 2, 4, 5))
    assert torch.equal(gate.expand_as(x), gate.expand(2, 4, 5))
    assert torch.equal(numbers(2, 20).view_as(x), numbers(2, 20).view(2, 4, 5))
    assert torch.equal((x * gate.expand_as(x)).components, x.components * gate)
    real, other = torch.broadcast_tensors(gate, x)
    assert real.shape == other.shape == (2, 4, 5)
    xyz = from_real(numbers(2, 4, 3), -1)
    assert torch.equal((xyz * gate.expand_as(xyz)).as_real(), xyz.as_real() * gate)


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match="invalid"):
        QuaternionTensor(numbers(3, 2, 4)).view(3, 3)
    with pytest.raises(RuntimeError):
        from_real(numbers(2, 4, 3), -1).expand(2, 4, 6)


@pytest.mark.parametrize("real", [torch.ones(2, 4), torch.ones(2, 1)])
@pytest.mark.parametrize("join", [torch.cat, torch.stack, torch.hstack, torch.vstack])
def test_real_numbers_do_not_stand_among_vectors(join, real):
    with pytest.raises(NoRuleError):
        join([QuaternionTensor(numbers(3, 2, 4)), real.double()])
