"""What the number system does on gathered storage: gathers make it, structure and sums keep it (`reqnn.tensor.gathered`).

Each function takes the arguments of the rule of its name and returns NotImplemented if it has no gathered form; the rule then
runs on ordinary tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reqnn.kernels.rows import from_rows
from reqnn.rules.algebra.base import algebra, per_entry, sizes
from reqnn.rules.algebra.indexing import _translate
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay
from reqnn.tensor.gathered import Gathered, OnPlaces, Repeated, Summed, Term, Weighted, as_term, form_of, once, rows_of, wrap
from reqnn.tensor.markers import RemovedBias

# -- gathers ---------------------------------------------------------------------------------------------------------


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


# -- structure -------------------------------------------------------------------------------------------------------


def _moved(x: Q, form: Any) -> Q:
    return wrap(form, x, form.axis, x.vectors if x.axis is not None else "")


@algebra.gathered("permute")
def permute(x: Q, *dims: Any, **named: Any) -> Any:
    """Reorder axes."""
    form = form_of(x, OnPlaces)
    if form is None:
        return NotImplemented
    order = x.dims(sizes(dims, named))
    rest = [d - (d > form.axis) for d in order if d != form.axis]
    return _moved(x, form.mapped(lambda index: index.permute(rest), order.index(form.axis)))


@algebra.gathered("transpose")
def transpose(x: Q, dim0: int, dim1: int) -> Any:
    """Swap two axes."""
    if form_of(x, OnPlaces) is None:
        return NotImplemented
    order = list(range(x.rank))
    a, b = x.dims((dim0, dim1))
    order[a], order[b] = b, a
    return permute(x, order)


@algebra.gathered("movedim")
def movedim(x: Q, source: Any, destination: Any) -> Any:
    """Move axes to new places."""
    if form_of(x, OnPlaces) is None:
        return NotImplemented
    order = torch.empty(list(range(2, x.rank + 2)), device="meta").movedim(source, destination).shape
    return permute(x, [size - 2 for size in order])


@algebra.gathered("unsqueeze")
def unsqueeze(x: Q, dim: int) -> Any:
    """Insert an axis of size 1."""
    form = form_of(x, OnPlaces)
    if form is None or not -x.rank - 1 <= dim <= x.rank:
        return NotImplemented
    at = dim % (x.rank + 1)
    axis = form.axis + (at <= form.axis)
    return _moved(x, form.mapped(lambda index: index.unsqueeze(at - (at > axis)), axis))


@algebra.gathered("squeeze")
def squeeze(x: Q, dim: Any = None) -> Any:
    """Drop axes of size 1."""
    form, shape = form_of(x, OnPlaces), x.user_shape
    if form is None:
        return NotImplemented
    dims = [d for d in (range(x.rank) if dim is None else x.dims(dim)) if shape[d] == 1]
    if form.axis in dims:
        return NotImplemented
    axis = form.axis - sum(d < form.axis for d in dims)
    rest = [d - (d > form.axis) for d in dims]
    return _moved(x, form.mapped(lambda index: index.squeeze(rest), axis))


@algebra.gathered("view", "reshape")
def reshape(x: Q, *shape: Any, **named: Any) -> Any:
    """A reshape that keeps the channels as one axis."""
    form, user = form_of(x, OnPlaces), x.user_shape
    asked = sizes(shape, named)
    if form is None or any(isinstance(size, torch.dtype) for size in asked):
        return NotImplemented
    wanted = lay.resolve(asked, prod(user))
    before, width = prod(user[: form.axis]), user[form.axis]
    found = [d for d, size in enumerate(wanted) if size == width and prod(wanted[:d]) == before]
    if prod(wanted) != prod(user) or width == 1 or len(found) != 1:
        return NotImplemented
    (at,) = found
    return _moved(x, form.mapped(lambda index: index.reshape([*wanted[:at], *wanted[at + 1 :]]), at))


@algebra.gathered("flatten")
def flatten(x: Q, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge neighbouring axes."""
    if form_of(x, OnPlaces) is None:
        return NotImplemented
    (start, end), shape = x.dims((start_dim, end_dim)), x.user_shape
    return reshape(x, *shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])


@algebra.gathered("unflatten")
def unflatten(x: Q, dim: int, sizes: Sequence[int]) -> Any:
    """Split one axis into several."""
    if form_of(x, OnPlaces) is None:
        return NotImplemented
    (at,), shape = x.dims(dim), x.user_shape
    return reshape(x, *shape[:at], *lay.resolve(sizes, shape[at]), *shape[at + 1 :])


@algebra.gathered("expand", "broadcast_to")
def expand(x: Any, *shape: Any, **named: Any) -> Any:
    """Repeat along axes of size 1."""
    form, asked = form_of(x, OnPlaces), sizes(shape, named)
    if form is None or not all(isinstance(size, int) for size in asked):
        return NotImplemented
    new = len(asked) - x.rank
    axis = form.axis + new
    if new < 0 or asked[axis] not in (-1, x.user_shape[form.axis]):
        return NotImplemented
    wanted = asked[:axis] + asked[axis + 1 :]
    return _moved(x, form.mapped(lambda index: index.expand(wanted), axis))


@algebra.gathered("contiguous", "clone")
def contiguous(x: Q, *args: Any, **named: Any) -> Any:
    """The order in memory is nobody's concern before there is memory."""
    form = form_of(x, OnPlaces)
    return NotImplemented if form is None else _moved(x, form)


# -- sums and multiples ----------------------------------------------------------------------------------------------


def on_common_places(*operands: Q) -> list[Gathered] | None:
    """All operands as gathered features on the same places, if one of them is; ordinary ones must be repeated along some."""
    forms = [form_of(x) for x in operands]
    rank = max(x.rank for x in operands)
    first = next((f for f in forms if f is not None), None)
    if first is None or any(isinstance(x.still_deferred, Gathered) and f is None for x, f in zip(operands, forms, strict=True)):
        return None
    first_rank = len(first.places) + 1
    axis = first.axis + rank - first_rank
    shapes = []
    for x, form in zip(operands, forms, strict=True):
        here = axis - (rank - x.rank)
        if here < 0 or (form is not None and form.axis != here) or x.axis not in (None, here):
            return None
        shapes.append([1] * (rank - x.rank) + [size for d, size in enumerate(x.stored_shape[1:]) if d != here])
    places = torch.broadcast_shapes(*shapes)
    parts = {x.stored_shape[0] for x in operands}
    out = []
    for x, form in zip(operands, forms, strict=True):
        if form is None:
            aligned: Any = x
            for _ in range(rank - x.rank):
                aligned = torch.unsqueeze(aligned, 0)
            term = as_term(aligned, axis, places)
            if term is None:
                return None
            form = Gathered(((term,),), axis, (x.waiting,))
        else:
            form = form.mapped(lambda index: index.expand(places), axis)
        out.append(_with_real_parts(form) if len(parts) > 1 else form)
    return out


def _with_real_parts(form: Gathered) -> Gathered:
    """The same with the real part stored."""

    def general(term: Term, first: int) -> Term:
        rows = term.rows
        return term if rows.shape[1] == 4 else replace(term, rows=torch.cat([torch.zeros_like(rows[:, :1]), rows], 1))

    return form.with_rows(general)


def _sum(a: Any, b: Any, sign: float) -> Any:
    if isinstance(b, RemovedBias) and form_of(a) is not None:
        shape = torch.broadcast_shapes(b.shape, a.user_shape)
        return _moved(a, form_of(a)) if shape == a.user_shape else NotImplemented
    if not (isinstance(a, Q) and isinstance(b, Q)) or isinstance(sign, Tensor):
        return NotImplemented
    both = on_common_places(a, b)
    if both is None:
        one, two = form_of(a, Summed), form_of(b, Summed)
        out = None if one is None or two is None or a.vectors != b.vectors else one.plus(two, sign)
        return NotImplemented if out is None else wrap(out, a, out.axis, a.vectors)
    f, g = both
    layout = _layout(a, f, b, g)
    widths = [[block[0].rows.shape[2] for block in form.blocks] for form in both]
    if layout is None or widths[0] != widths[1]:
        return NotImplemented
    blocks = tuple(
        (*one, *(replace(term, factor=term.factor * sign) for term in two)) for one, two in zip(f.blocks, g.blocks, strict=True)
    )
    return wrap(Gathered(blocks, f.axis, (*f.sources, *g.sources)), a, f.axis, layout)


def _layout(a: Q, f: Gathered, b: Q, g: Gathered) -> str | None:
    """The common layout of two operands; None if they differ."""
    rank = len(f.places) + 1
    one, two = (x.layout_on(form.axis - rank) for x, form in ((a, f), (b, g)))
    return one if one == two else None


@algebra.gathered("add")
def add(a: Any, b: Any, *, alpha: float = 1) -> Any:
    """p + q."""
    return _sum(a, b, alpha)


@algebra.gathered("sub")
def sub(a: Any, b: Any, *, alpha: float = 1) -> Any:
    """p − q."""
    return _sum(a, b, -alpha) if not isinstance(alpha, Tensor) else NotImplemented


@algebra.gathered("neg")
def neg(x: Q) -> Any:
    """−q."""
    form = form_of(x)
    return NotImplemented if form is None else _scaled(x, form, -1.0)


def _scaled(x: Q, form: Gathered, factor: float) -> Q:
    return _moved(x, form.with_rows(lambda term, first: replace(term, factor=term.factor * factor)))


@algebra.gathered("mul")
def mul(a: Any, b: Any) -> Any:
    """λ·q for a number, a number per channel, and a number per place."""
    x, factor = (a, b) if isinstance(a, Q) else (b, a)
    form = form_of(x, Summed)
    if form is None or isinstance(factor, Q):
        return NotImplemented
    if not isinstance(form, Gathered):
        return _weighted(x, form, factor)
    if not isinstance(factor, Tensor):
        return _scaled(x, form, float(factor)) if isinstance(factor, (int, float)) else NotImplemented
    return _times_real(x, form, factor)


@algebra.gathered("div")
def div(x: Any, divisor: Any, *, rounding_mode: str | None = None) -> Any:
    """q / λ."""
    form = form_of(x)
    if form is None or isinstance(divisor, Q) or rounding_mode is not None:
        return NotImplemented
    if not isinstance(divisor, Tensor):
        return _scaled(x, form, 1 / divisor) if isinstance(divisor, (int, float)) and divisor else NotImplemented
    return _times_real(x, form, divisor.reciprocal())


def _times_real(x: Q, form: Gathered, factor: Tensor) -> Any:
    if type(factor) not in (Tensor, torch.nn.Parameter) or factor.dim() > x.rank:
        return NotImplemented
    factor = per_entry(factor, x)
    shape = [1] * (x.rank - factor.dim()) + list(factor.shape)
    factor = factor.reshape(shape).to(form.raw.dtype)
    if factor.numel() == shape[form.axis]:  # per channel, or one number for all
        wide = factor.reshape(-1).expand(form.width)

        def scaled(term: Term, first: int) -> Term:
            return replace(term, rows=term.rows * wide[first : first + term.rows.shape[2]])

        return _moved(x, replace(form.with_rows(scaled), sources=()))
    if shape[form.axis] != 1:
        return NotImplemented
    folded = _per_cloud(form, factor.squeeze(form.axis))
    return _moved(x, folded) if folded is not None else _weighted(x, form, factor)


def _weighted(x: Q, form: Any, factor: Any) -> Any:
    """A number per place, on features that are summed up only later."""
    if type(factor) not in (Tensor, torch.nn.Parameter) or factor.dim() != x.rank or factor.shape[form.axis] != 1:
        return NotImplemented
    weights = factor.squeeze(form.axis)
    if torch.broadcast_shapes(weights.shape, form.places) != form.places:
        return NotImplemented
    return wrap(Weighted(form, weights), x, form.axis, x.vectors)


def _per_cloud(form: Gathered, weights: Tensor) -> Gathered | None:
    """A factor per cloud belongs to the rows, if each cloud reads rows of its own: looked up on the CPU."""
    clouds = form.places[0]
    if weights.numel() != clouds or weights.shape[0] != clouds or form.raw.device.type != "cpu":
        return None
    own = torch.arange(clouds).view(-1, *[1] * (len(form.places) - 1))
    for block in form.blocks:
        for term in block:
            size = len(term.rows) // clouds
            if len(term.rows) % clouds or not bool((term.index // size == own).all()):
                return None
    per_row = weights.reshape(clouds, 1, 1, 1)

    def scaled(term: Term, first: int) -> Term:
        rows = term.rows
        return replace(term, rows=(rows.unflatten(0, (clouds, -1)) * per_row).flatten(0, 1))

    return replace(form.with_rows(scaled), sources=())


@algebra.gathered("cat")
def cat(tensors: Sequence[Any], dim: int = 0, **named: Any) -> Any:
    """Channels side by side."""
    operands = list(tensors)
    if named or not operands or not all(isinstance(x, Q) for x in operands) or len({x.rank for x in operands}) > 1:
        return NotImplemented
    forms = on_common_places(*operands)
    if forms is None or operands[0].dims(dim)[0] != forms[0].axis:
        return NotImplemented
    places = {tuple(s for d, s in enumerate(x.stored_shape[1:]) if d != forms[0].axis) for x in operands}
    if len(places) > 1:  # cat does not broadcast: the rule says what does not fit
        return NotImplemented
    layout = "".join(x.layout_on(forms[0].axis) for x in operands)
    blocks = tuple(block for form in forms for block in form.blocks)
    sources = tuple(source for form in forms for source in form.sources)
    return wrap(Gathered(blocks, forms[0].axis, sources), operands[0], forms[0].axis, layout)


@algebra.gathered("sum")
def total(x: Q, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """Σ over neighbours: one loop, also of features times a number per place."""
    return _reduced(x, dim, keepdim, named, 1.0)


@algebra.gathered("mean")
def mean(x: Q, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """The mean over neighbours."""
    at = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    if not isinstance(at, int) or isinstance(at, bool):
        return NotImplemented
    return _reduced(x, at, keepdim, named, 1.0 / x.user_shape[x.dims(at)[0]])


def _reduced(x: Q, dim: Any, keepdim: bool, named: dict[str, Any], factor: float) -> Any:
    kept = form_of(x, (Summed, Weighted))
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    if kept is None or not isinstance(dim, int) or any(value is not None for value in named.values()):
        return NotImplemented
    form, weights = (kept.form, kept.weights) if isinstance(kept, Weighted) else (kept, None)
    (at,) = x.dims(dim)
    if at == form.axis:
        return NotImplemented
    rows = form.total(at - (at > form.axis), weights)
    if rows is None:
        return NotImplemented
    axis = form.axis - (at < form.axis)
    raw = from_rows(rows if factor == 1 else rows * factor, axis)
    if keepdim:
        raw, axis = raw.unsqueeze(at + 1), form.axis
    out = x.like(raw, axis if x.axis is not None else None, x.vectors)
    out.channel_axis = axis
    return out
