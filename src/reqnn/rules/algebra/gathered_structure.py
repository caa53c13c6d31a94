"""Structure of gathered features: the same operation on the places (`reqnn.tensor.gathered`).

Each function takes the arguments of the rule of its name and returns NotImplemented if it has no gathered form.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from reqnn.rules.algebra.base import algebra, sizes
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay
from reqnn.tensor.gathered import Flattened, Gathered, OnPlaces, form_of, wrap


def moved(x: Q, form: Any) -> Q:
    """A tensor like x with this storage."""
    return wrap(form, x, form.axis, x.vectors if x.axis is not None else "")


@algebra.gathered("permute")
def permute(x: Q, *dims: Any, **named: Any) -> Any:
    """Reorder axes."""
    form = form_of(x, OnPlaces)
    if form is None:
        return NotImplemented
    order = x.dims(sizes(dims, named))
    rest = [d - (d > form.axis) for d in order if d != form.axis]
    return moved(x, form.mapped(lambda index: index.permute(rest), order.index(form.axis)))


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
    return moved(x, form.mapped(lambda index: index.unsqueeze(at - (at > axis)), axis))


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
    return moved(x, form.mapped(lambda index: index.squeeze(rest), axis))


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
        whole = tuple(wanted) == (user[0], prod(user[1:])) and form.axis > 0 and x.axis is None
        return _flattened(x, form) if whole and isinstance(form, Gathered) else NotImplemented
    (at,) = found
    return moved(x, form.mapped(lambda index: index.reshape([*wanted[:at], *wanted[at + 1 :]]), at))


def _flattened(x: Q, form: Gathered) -> Q:
    kept = Flattened(form)
    return Q(kept.raw, context=x.context).wait_for(kept)


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
    return moved(x, form.mapped(lambda index: index.expand(wanted), axis))


@algebra.gathered("contiguous", "clone")
def contiguous(x: Q, *args: Any, **named: Any) -> Any:
    """The order in memory is nobody's concern before there is memory."""
    form = form_of(x, OnPlaces)
    return NotImplemented if form is None else moved(x, form)
