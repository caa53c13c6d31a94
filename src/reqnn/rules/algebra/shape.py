"""Shapes: view, permute, expand, repeat, flip …: the hidden axis stays in front, the layout follows its axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import sizes, structural
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay


@structural("view", "reshape", "_unsafe_view", "_reshape_alias")
def reshape(x: Q, *shape: Any, **named: Any) -> Q:
    """(*, ) → any shape with the same channels; an axis of vectors is followed (`reqnn.tensor.layout.reshape`)."""
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        raise NoRuleError("a view as another dtype")
    numel, asked = prod(x.user_shape), sizes(shape, named)
    wanted = lay.resolve(asked, numel)
    if prod(wanted) != numel:
        raise RuntimeError(f"shape '{asked}' is invalid for input of size {numel}")
    if x.axis is None:
        return x.like(x.components.reshape(x.components.shape[0], *wanted))
    true, axis, layout = lay.reshape(x.user_shape, x.axis, x.vectors, wanted)
    return x.like(x.components.reshape(x.components.shape[0], *true), axis, layout)


@structural("view_as", "reshape_as")
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """Reshape to the shape of another tensor; either may be real."""
    return reshape(x, other.shape) if isinstance(x, Q) else x.reshape(other.shape)


@structural("flatten", "ravel")
def flatten(x: Q, start_dim: int = 0, end_dim: int = -1) -> Q:
    """Merge neighbouring axes."""
    if x.rank == 0:
        return reshape(x, 1)
    (start, end), shape = x.dims((start_dim, end_dim)), x.user_shape
    return reshape(x, *shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])


@structural("unflatten")
def unflatten(x: Q, dim: int, sizes: Sequence[int]) -> Q:
    """Split one axis into several."""
    (at,), shape = x.dims(dim), x.user_shape
    return reshape(x, *shape[:at], *lay.resolve(sizes, shape[at]), *shape[at + 1 :])


@structural("squeeze")
def squeeze(x: Q, dim: int | Sequence[int] | None = None) -> Q:
    """Drop axes of size 1; an axis of coordinates has 3 and stays."""
    dims = [d for d in (range(x.rank) if dim is None else x.dims(dim)) if x.user_shape[d] == 1]
    if x.axis in dims and "s" in x.vectors:
        raise NoRuleError("the axis of a single scalar channel is squeezed away")
    axis = None if x.axis is None or x.axis in dims else x.axis - sum(d < x.axis for d in dims)
    return x.like(x.components.squeeze([d + 1 for d in dims]), axis, x.vectors if axis is not None else "")


@structural("unsqueeze")
def unsqueeze(x: Q, dim: int) -> Q:
    """Insert an axis of size 1."""
    at = dim % (x.rank + 1) if -x.rank - 1 <= dim <= x.rank else x.dims(dim)[0]
    axis = None if x.axis is None else x.axis + (at <= x.axis)
    return x.like(x.components.unsqueeze(at + 1), axis, x.vectors)


@structural("permute")
def permute(x: Q, *dims: Any, **named: Any) -> Q:
    """Reorder axes."""
    order = x.dims(sizes(dims, named))
    axis = None if x.axis is None else order.index(x.axis)
    return x.like(x.components.permute(0, *[d + 1 for d in order]), axis, x.vectors)


@structural("transpose")
def transpose(x: Q, dim0: int, dim1: int) -> Q:
    """Swap two axes."""
    order = list(range(x.rank))
    a, b = x.dims((dim0, dim1))
    order[a], order[b] = b, a
    return permute(x, order)


@structural("movedim")
def movedim(x: Q, source: Any, destination: Any) -> Q:
    """Move axes to new places."""
    order = torch.empty(list(range(2, x.rank + 2)), device="meta").movedim(source, destination).shape
    return permute(x, [size - 2 for size in order])


@structural("expand", "broadcast_to", "expand_as")
def expand(x: Q, *shape: Any, **named: Any) -> Any:
    """Repeat along axes of size 1 without copying; a real tensor to the shape of quaternion features stays real."""
    asked = sizes(shape, named)
    wanted = list(asked[0].shape) if isinstance(asked[0], Tensor) else asked
    if not isinstance(x, Q):
        return x.expand(wanted)
    added = len(wanted) - x.rank
    true = [x.components.shape[0], *wanted]
    current = [1] * added + list(x.user_shape)
    if x.axis is not None:
        if wanted[x.axis + added] not in (-1, current[x.axis + added]):
            raise RuntimeError(f"axis {x.axis} holds {current[x.axis + added]} channels and cannot be expanded")
        true[x.axis + added + 1] = -1
    components = x.components.reshape(x.components.shape[0], *[1] * added, *x.components.shape[1:])
    return x.like(components.expand(true), None if x.axis is None else x.axis + added, x.vectors)


@structural("broadcast_tensors")
def broadcast_tensors(*tensors: Tensor) -> list[Tensor]:
    """Expand all to a common shape."""
    items = sizes(tensors)
    shape = torch.broadcast_shapes(*[item.shape for item in items])
    return [expand(item, shape) for item in items]


@structural("repeat", "tile")
def repeat(x: Q, *repeats: Any, **named: Any) -> Q:
    """Copies of the whole along each axis."""
    counts = sizes(repeats, named)
    counts = [1] * (x.rank - len(counts)) + counts
    added = len(counts) - x.rank
    components = x.components.reshape(x.components.shape[0], *[1] * added, *x.components.shape[1:]).repeat(1, *counts)
    if x.axis is None:
        return x.like(components)
    axis = x.axis + added
    return x.like(components, axis, x.vectors * counts[axis])


@structural("repeat_interleave")
def repeat_interleave(x: Q, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Q:
    """Copies of each element along one axis."""
    if dim is None:
        x, dim = flatten(x), 0
    (at,) = x.dims(dim)
    if x.holds_vectors(at):
        raise NoRuleError("repeat_interleave along coordinates repeats x before y; repeat whole vectors with repeat()")
    components = x.components.repeat_interleave(repeats, at + 1, output_size=output_size)
    if at == x.axis and not isinstance(repeats, int):
        raise NoRuleError("a different number of repeats for each scalar channel")
    layout = "".join(entry * repeats for entry in x.vectors) if at == x.axis else x.vectors
    return x.like(components, x.axis, layout)


@structural("roll")
def roll(x: Q, shifts: Any, dims: Any = ()) -> Q:
    """Elements moved round along axes."""
    at = x.dims(dims)
    if x.axis is not None and (not at or x.axis in at):
        raise NoRuleError("roll along the axis of coordinates, or over the flattened tensor")
    if not at:
        return x.same(x.components.flatten(1).roll(shifts, 1).view_as(x.components))
    return x.same(x.components.roll(shifts, [d + 1 for d in at]))


@structural("flip")
def flip(x: Q, *dims: Any, **named: Any) -> Q:
    """Reversed order along axes."""
    at = x.dims(sizes(dims, named))
    if x.axis in at:
        raise NoRuleError("flip along the axis of coordinates")
    return x.same(x.components.flip([d + 1 for d in at]))


@structural("pad")
def pad(x: Q, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Q:
    """Zeros around (any other constant is a fixed direction); reflect and replicate as they are."""
    if mode == "constant" and value not in (None, 0):
        raise NoRuleError("padding with a number other than 0")
    if x.axis is not None and any(pad[2 * (x.rank - 1 - x.axis) : 2 * (x.rank - x.axis)]):
        raise NoRuleError("padding along the axis of coordinates")
    if mode == "constant":
        return x.same(torch.nn.functional.pad(x.components, list(pad)))
    parts = torch.nn.functional.pad(x.components.flatten(0, 1), list(pad), mode=mode)
    return x.same(parts.unflatten(0, (x.components.shape[0], -1)))


@structural("unfold")
def unfold(x: Q, dimension: Any = None, size: int = 0, step: int = 1, **named: Any) -> Q:
    """Sliding windows along one axis (``Tensor.unfold``)."""
    if named or not isinstance(dimension, int):
        raise NoRuleError("F.unfold (im2col) of quaternion features")
    (at,) = x.dims(dimension)
    if at == x.axis:
        raise NoRuleError("windows along the axis of coordinates")
    return x.like(x.components.unfold(at + 1, size, step), x.axis, x.vectors)
