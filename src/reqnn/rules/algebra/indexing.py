"""Indices: ``x[...]``, gather, index_select, where, and writing with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import (
    algebra,
    align,
    as_real_part,
    broadcast_axis,
    per_entry,
    refuse_over_vectors,
    representatives,
    same_parts,
    structural,
    zero_quaternions,
)
from reqnn.rules.algebra.shape import flatten
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import adopt
from reqnn.tensor import layout as lay
from reqnn.tensor.markers import CutVectors
from reqnn.tensor.quaternion_tensor import is_zeros
from reqnn.tensor.trace import enclosing_module, user_frame, user_functions


@structural("__getitem__")
def getitem(x: Q, index: Any) -> Q:
    """``x[index]``; along coordinates ``[:3]`` means a vector, and what cuts one raises."""
    try:
        true, axis, layout, front = _translate(x, index)
    except NoRuleError as error:
        return _only_shape(x, index, error)
    components = x.components[(slice(None), *true)]
    if front:  # index tensors with a slice between them: torch puts their axes first, before the hidden one
        components = components.movedim(front, 0)
    if "s" in x.vectors and "s" not in layout and axis is not None:
        components = components[-3:]  # vectors without the scalars that were beside them have no real part
    out, first = x.like(components, axis, layout), index[0] if isinstance(index, tuple) and index else index
    if isinstance(first, int) and axis is not None and x.rank > 2 and x.context.points is not None:
        clouds = x.context.points.shape[0]
        if x.stored_shape[1] == clouds > 1:
            out.context = x.context.of_cloud(first % clouds)
    return out


def _only_shape(x: Q, index: Any, error: NoRuleError) -> Any:
    """Single coordinates: the code of a network may ask for their shape, ``torch.ones_like(xyz[:, :1])``."""
    items = index if isinstance(index, tuple) else (index,)
    if not x.context.names or not all(item is None or isinstance(item, (int, slice, type(Ellipsis))) for item in items):
        raise error
    cut = x.components.new_full((), float("nan")).expand(x.user_shape)[index].as_subclass(CutVectors)
    cut.error = error.located(
        "__getitem__", enclosing_module(x.context.names), user_frame(), x.source or x.fed_by, user_functions()
    )
    return cut


@algebra.rule("__setitem__", row="structure", linear=True)
def setitem(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value`` for quaternion values, or 0."""
    if not isinstance(x, Q):
        zeros = zero_quaternions(x, value, buffer=True)
        region = getitem(zeros, index)
        if value.axis is not None and (region.axis is None or region.axis - region.rank != value.axis - value.rank):
            raise NoRuleError("coordinates are written to another axis than theirs")
        x = adopt(x, zeros)
    true = _translate(x, index)[0]
    x.about_to_change()
    places = x.components.movedim(0, -1)  # a view; with the hidden axis last torch puts index tensors where they belong
    if isinstance(value, (int, float)) and value == 0:
        places[true] = 0
        return
    if not isinstance(value, Q):
        raise NoRuleError("real numbers are written into quaternion features")
    target, value = same_parts(x, value)
    if target is not x:
        raise NoRuleError("scalars are written into a tensor of vectors")
    places[true] = value.components.movedim(0, -1)
    if x.unwritten is not None:
        x.unwritten[true] = False


def _translate(x: Q, index: Any) -> tuple[tuple[Any, ...], int | None, str, int]:
    """An index in channels as one in entries, with the axis and layout of the result.

    The last number is where the hidden axis ends up if index tensors are not neighbours, else 0.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    items = [torch.as_tensor(item) if isinstance(item, (list, np.ndarray)) else item for item in items]
    if any(isinstance(item, Q) for item in items):
        raise NoRuleError("quaternion features used as an index")
    used = sum(0 if item is None else item.dim() if _is_mask(item) else 1 for item in items if item is not Ellipsis)
    fill = [slice(None)] * (x.rank - used)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    items = items + fill if at is None else items[:at] + fill + items[at + 1 :]

    layout, dim = x.vectors, 0
    sources: list[Any] = []  # which axis each axis of the result comes from
    tensors: list[tuple[int, Tensor]] = []
    true: list[Any] = []
    for item in items:
        if item is None:
            sources.append("new")
        elif isinstance(item, slice):
            if dim == x.axis:
                item, layout = _slice_entries(item, layout)
            sources.append(dim)
            dim += 1
        elif isinstance(item, Tensor) and item.dim() > 0:
            if x.axis is not None and dim <= x.axis < dim + (item.dim() if _is_mask(item) else 1):
                raise NoRuleError("an index tensor picks single channels of the axis of coordinates")
            tensors.append((len(sources), item))
            sources.append("index")
            dim += item.dim() if _is_mask(item) else 1
        else:
            if dim == x.axis:
                if layout[lay.entries(layout, [int(item) % lay.width(layout)])[0]] == "s":
                    raise NoRuleError("one scalar channel without its axis; write a slice, such as x[:, 3:4]")
                item = lay.entries(layout, [int(item) % lay.width(layout)])[0]
                layout = ""
            dim += 1
        true.append(item)

    front = 0
    if tensors:
        width = len(torch.broadcast_shapes(*[(1,) if _is_mask(t) else t.shape for _, t in tensors]))
        places = [place for place, _ in tensors]
        neighbours = places == list(range(places[0], places[0] + len(places)))
        rest = [source for source in sources if source != "index"]
        start = places[0] if neighbours else 0
        sources = rest[:start] + ["index"] * width + rest[start:]
        front = 0 if neighbours else width
    axis = sources.index(x.axis) if x.axis is not None and x.axis in sources else None
    return tuple(true), axis, layout if axis is not None else "", front


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8)


def _slice_entries(item: slice, layout: str) -> tuple[slice, str]:
    if item.indices(lay.width(layout)) == (0, lay.width(layout), 1):
        return slice(None), layout
    chosen = lay.entries(layout, range(*item.indices(lay.width(layout))))
    if chosen != list(range(chosen[0], chosen[0] + len(chosen))) if chosen else False:
        raise NoRuleError("a slice with a step along the axis of coordinates")
    start = chosen[0] if chosen else 0
    return slice(start, start + len(chosen)), layout[start : start + len(chosen)]


@structural("select")
def select(x: Q, dim: int, index: int) -> Q:
    """One place along an axis."""
    (at,) = x.dims(dim)
    return getitem(x, (slice(None),) * at + (index,))


@structural("narrow")
def narrow(x: Q, dim: int, start: int, length: int) -> Q:
    """A run of places along an axis."""
    (at,) = x.dims(dim)
    first = int(start) % x.user_shape[at] if start < 0 else int(start)
    return getitem(x, (slice(None),) * at + (slice(first, first + length),))


@structural("index_select")
def index_select(x: Q, dim: int, index: Tensor) -> Q:
    """Places along an axis, by a list of indices."""
    (at,) = x.dims(dim)
    if at == x.axis:
        chosen = lay.entries(x.vectors, index.tolist())
        picked = x.components.index_select(at + 1, torch.tensor(chosen, device=index.device))
        return x.like(picked, at, "".join(x.vectors[i] for i in chosen))
    return x.same(x.components.index_select(at + 1, index))


@structural("gather")
def gather(x: Q, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Q:
    """out[i][j] = x[index[i][j]][j]; an index repeated for x, y and z means the vector."""
    (at,) = x.dims(dim)
    index = entry_index(x, at, index)
    return x.same(x.components.gather(at + 1, index.expand(x.components.shape[0], *index.shape)))


@structural("take_along_dim")
def take_along_dim(x: Q, indices: Tensor, dim: int | None = None) -> Q:
    """As `gather`, with broadcasting."""
    if dim is None:
        x, dim = flatten(x), 0
    (at,) = x.dims(dim)
    if at == x.axis or (x.axis is not None and indices.shape[x.axis] != 1):
        indices = entry_index(x, at, indices)
    return x.same(torch.take_along_dim(x.components, indices.unsqueeze(0), at + 1))


def entry_index(x: Q, at: int, index: Tensor) -> Tensor:
    """An index that counts channels as one that counts entries, for a gather or scatter along axis `at`."""
    if x.axis is None or not lay.has_vectors(x.vectors):
        return index
    if at == x.axis:
        raise NoRuleError("gather along the axis of coordinates")
    if index.shape[x.axis] != lay.width(x.vectors):
        raise NoRuleError("gather takes some of the coordinates x, y, z only; repeat the index along all of them")
    return representatives(index, x.axis, x.vectors)


@structural("where")
def where(condition: Tensor, x: Any = None, y: Any = None, **named: Any) -> Q:
    """Choose whole quaternions; the other side may be 0."""
    if isinstance(condition, Q) and isinstance(x, Tensor) and not isinstance(x, Q):
        condition, x = x, condition  # x.where(condition, y)
    x, y = named.get("input", x), named.get("other", y)
    if isinstance(condition, Q) or x is None:
        raise NoRuleError("a condition made of quaternion features; compare norms")
    sides = [side for side in (x, y) if isinstance(side, Q)]
    if len(sides) == 1:
        other = y if isinstance(x, Q) else x
        chosen = as_real_part(other, sides[0])
        if chosen is None and not _is_zero(other):
            raise NoRuleError("where() chooses between quaternion features and real numbers other than 0")
        chosen = sides[0].same(torch.zeros_like(sides[0].components)) if chosen is None else chosen
        x, y = (x, chosen) if isinstance(x, Q) else (chosen, y)
    x, y = same_parts(x, y)
    axis, layout = broadcast_axis(x, y)
    widest = x if x.axis is not None else y
    condition = per_entry(condition, widest)
    rank = max(x.rank, y.rank, condition.dim())
    return x.like(torch.where(condition, align(x.components, rank), align(y.components, rank)), axis, layout)


_NEVER = -1e4  # what is filled with less than this is not to be the maximum: no quaternion is shorter than 0


def _is_zero(value: Any) -> bool:
    if isinstance(value, Tensor):
        return is_zeros(value) or (value.dim() == 0 and not torch.compiler.is_compiling() and bool(value <= _NEVER))
    return bool(value == 0 or value <= _NEVER)


@structural("masked_fill")
def masked_fill(x: Q, mask: Tensor, value: Any) -> Q:
    """Quaternions set to 0 where the mask is true; −∞, which a maximum is to ignore, is 0 too."""
    if as_real_part(0, x) is None and not _is_zero(value):
        raise NoRuleError("masked_fill with a number other than 0 writes a fixed direction")
    return where(per_entry(mask, x), value, x)


@structural("masked_select")
def masked_select(x: Q, mask: Tensor) -> Q:
    """The quaternions where the mask is true, as one list."""
    refuse_over_vectors(x, [x.axis] if x.axis is not None else [], "masked_select")
    mask = mask.expand(x.user_shape)
    return x.like(x.components[:, mask])
