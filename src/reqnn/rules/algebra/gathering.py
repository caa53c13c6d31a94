"""Gathers: what makes gathered storage (`reqnn.tensor.gathered`), and indices of what is gathered already.

Each function takes the arguments of the rule of its name and returns NotImplemented if it has no gathered form.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqnn.rules.algebra.base import algebra, sizes
from reqnn.rules.algebra.indexing import _translate
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, Repeated, form_of, once, rows_of, wrap
from reqnn.tensor.terms import Term


def _gather(x: Q, numbers: Tensor, channels: int, axis: int) -> Any:
    """The rows of an ordinary tensor at these numbers, channels on `axis` of the result; only if there are more than rows.

    Args:
        numbers: int64, the place of each row among the places of `once(x)` (its shape without `channels`).
    """
    components = once(x)
    count = components[0].numel() // components.shape[channels + 1] if components.numel() else 0
    if numbers.numel() <= count or not count or x.axis not in (None, channels):
        return NotImplemented
    form = Gathered(((Term(rows_of(components, channels, x.context.memo), numbers),),), axis, (x.waiting,))
    return wrap(form, x, axis, x.layout_on(channels))


def _in_range(index: Tensor, size: int) -> Tensor:
    """An index with negative ones counted from the end, as a tensor that nobody else changes; out of range raises."""
    index = index.long()
    if index.device.type == "cpu" and index.numel():
        low, high = (int(bound) for bound in torch.aminmax(index))
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"index {wrong} is out of bounds for dimension with size {size}")
        return index + 0 if low >= 0 else torch.where(index < 0, index + size, index)
    return torch.where(index < 0, index + size, index)


@algebra.gathered("__getitem__")
def getitem(x: Q, index: Any) -> Any:
    """``x[b, idx]`` and ``x[idx]`` with one whole axis of channels left; slices and further gathers of gathered features."""
    items = list(index) if isinstance(index, tuple) else [index]
    tensors = [torch.as_tensor(item) for item in items if isinstance(item, (Tensor, list, np.ndarray))]
    if any(isinstance(t, Q) or t.dtype in (torch.bool, torch.uint8) for t in tensors):
        return NotImplemented
    if form_of(x) is not None:
        return _index_form(x, index, bool(tensors))
    if len(tensors) == 0 or isinstance(x.still_deferred, Gathered):
        return NotImplemented
    return _index_rows(x, items)


def _index_rows(x: Q, items: list[Any]) -> Any:
    """Index tensors on all axes but one."""
    if Ellipsis in [item for item in items if not isinstance(item, (Tensor, list, np.ndarray))]:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items = items[:at] + [slice(None)] * (x.rank - len(items) + 1) + items[at + 1 :]
    items = items + [slice(None)] * (x.rank - len(items))
    whole = [d for d, item in enumerate(items) if isinstance(item, slice) and item == slice(None)]
    if len(items) != x.rank or len(whole) != 1:
        return NotImplemented
    (channels,) = whole
    picked = [(d, item) for d, item in enumerate(items) if d != channels]
    if not all(isinstance(item, (Tensor, list, np.ndarray)) for _, item in picked):
        return NotImplemented
    numbers: Any = 0
    components = once(x)
    for d, item in picked:
        size = x.stored_shape[d + 1]
        here = _in_range(torch.as_tensor(item, device=x.device), size)
        numbers = numbers * size + here if components.shape[d + 1] == size else numbers + 0 * here
    # If the slice stands between index tensors, torch puts their axes first.
    return _gather(x, numbers, channels, 0 if channels == 0 else numbers.dim())


def _index_form(x: Q, index: Any, gathers: bool) -> Any:
    """Slices and index tensors on the places, slices on the channels."""
    form = form_of(x)
    true, axis, layout, front = _translate(x, index)
    used = [item for item in true if item is not None]
    at = [i for i, item in enumerate(true) if item is not None][form.axis] if len(used) == x.rank else None
    if at is None or front or not isinstance(true[at], slice) or true[at].step not in (None, 1):
        return NotImplemented
    if gathers and any(not isinstance(item, (slice, Tensor)) for item in true):
        return NotImplemented
    start, stop, _ = true[at].indices(form.width)
    rest = true[:at] + true[at + 1 :]
    out = form.channels(start, stop).mapped(lambda number: number[rest], 0)
    if start >= stop or not out.places.numel():
        return NotImplemented
    dims = sum(not isinstance(item, int) and not (isinstance(item, Tensor) and item.dim() == 0) for item in true[:at])
    if gathers:
        first = next(i for i, item in enumerate(true) if isinstance(item, Tensor))
        tensors = [item for item in true if isinstance(item, Tensor)]
        wide = len(torch.broadcast_shapes(*[t.shape for t in tensors]))
        dims = at if at < first else at - len(tensors) + wide
    out = replace(out, axis=dims)
    layout = layout if axis is not None else ""
    return wrap(out, x, dims, layout)


@algebra.gathered("select")
def select(x: Q, dim: int, index: int) -> Any:
    """One place along an axis."""
    return getitem(x, (slice(None),) * x.dims(dim)[0] + (index,))


@algebra.gathered("narrow")
def narrow(x: Q, dim: int, start: int, length: int) -> Any:
    """A run of places along an axis."""
    (at,) = x.dims(dim)
    first = int(start) % x.user_shape[at] if start < 0 else int(start)
    return getitem(x, (slice(None),) * at + (slice(first, first + length),))


@algebra.gathered("index_select")
def index_select(x: Q, dim: int, index: Tensor) -> Any:
    """Rows by a list of numbers."""
    if form_of(x) is not None or x.rank != 2:
        return NotImplemented
    (at,) = x.dims(dim)
    if once(x).shape[at + 1] != x.stored_shape[at + 1]:
        return NotImplemented
    return _gather(x, _in_range(index, x.stored_shape[at + 1]), 1 - at, 1 - at)


@algebra.gathered("gather", "take_along_dim")
def gather(x: Q, dim: Any, index: Any = None, **named: Any) -> Any:
    """An index that is repeated along the channels, by ``expand`` or as an axis of size 1, gathers rows."""
    if isinstance(dim, Tensor):  # take_along_dim(x, indices, dim)
        dim, index = index, dim
    if isinstance(x.still_deferred, Gathered) or named or not isinstance(dim, int) or index.dim() != x.rank or x.rank < 2:
        return NotImplemented
    (at,) = x.dims(dim)
    axes = [d for d in range(x.rank) if (d != at and index.stride(d) == 0) or (index.shape[d] == 1 and d != at)]
    width = [d for d in axes if index.shape[d] in (1, x.user_shape[d]) and x.axis in (None, d) and x.user_shape[d] > 1]
    if len(width) != 1:
        return NotImplemented
    (channels,) = width
    numbers: Any = 0
    local, components = index.narrow(channels, 0, 1), once(x)
    if components.shape[at + 1] != x.stored_shape[at + 1] or components.shape[channels + 1] != x.stored_shape[channels + 1]:
        return NotImplemented
    for d in range(x.rank):
        if d == channels:
            continue
        size = components.shape[d + 1]
        if d == at:
            here = _in_range(local, size)
        elif local.shape[d] in (1, x.stored_shape[d + 1]):
            here = torch.arange(size, device=index.device).view([-1 if e == d else 1 for e in range(x.rank)])
        else:
            return NotImplemented
        numbers = numbers * size + here
    shape = [max(size, local.shape[d]) if d == at else x.stored_shape[d + 1] for d, size in enumerate(numbers.shape)]
    shape[at], shape[channels] = local.shape[at], 1
    return _gather(x, numbers.expand(shape).squeeze(channels), channels, channels)


@algebra.gathered("repeat", "tile")
def repeat(x: Q, *repeats: Any, **named: Any) -> Any:
    """Copies along axes of size 1 are not made until somebody asks for them."""
    counts = sizes(repeats, named)
    if isinstance(x.still_deferred, Gathered) or len(counts) < x.rank or prod(counts) <= 1:
        return NotImplemented
    new = len(counts) - x.rank
    shape = [1] * new + list(x.stored_shape[1:])
    axis = None if x.axis is None else x.axis + new
    if any(count != 1 and (size != 1 or d == axis) for d, (count, size) in enumerate(zip(counts, shape, strict=True))):
        return NotImplemented
    parts = x.components.shape[0]
    raw = x.components.reshape(parts, *shape).expand(parts, *[count * size for count, size in zip(counts, shape, strict=True)])
    out = Q(raw, axis, x.vectors, x.context)
    out.channel_axis = None if x.channel_axis is None else x.channel_axis + new
    return out.wait_for(Repeated(raw, (x.waiting,)))
