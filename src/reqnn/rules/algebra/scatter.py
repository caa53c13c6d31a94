"""Writing at indexed places: scatter, index_add, segment sums and maxima, which message passing is made of.

The target may be real zeros: ``x.new_zeros(n, c).scatter_add_(0, index, messages)`` gives quaternions, under the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra, require_quaternion, same_parts, structural, zero_quaternions
from reqnn.rules.algebra.indexing import entry_index, getitem, setitem
from reqnn.rules.algebra.joining import cat
from reqnn.tensor import QuaternionTensor as Q


def _operands(x: Any, dim: int, source: Any) -> tuple[int, Q, Q]:
    """The axis and the operands of an indexed write; the target may be real zeros."""
    if not isinstance(source, Q):
        raise NoRuleError("real numbers are written into quaternion features")
    x = zero_quaternions(x, source)
    (at,) = x.dims(dim)
    if at == x.axis or (x.axis, x.vectors) != (source.axis, source.vectors):
        raise NoRuleError("an indexed write along coordinates, or of others than the target's")
    return at, *same_parts(x, source)


@algebra.each("index_add", "index_copy", row="structure", linear=True)
def index_write(name: str, x: Any, dim: int, index: Tensor, source: Any, **alpha: float) -> Q:
    """Add quaternions at indexed places, or overwrite what is there."""
    at, x, source = _operands(x, dim, source)
    return x.same(getattr(torch, name)(x.components, at + 1, index, source.components, **alpha))


@structural("index_reduce")
def index_reduce(x: Any, dim: int, index: Tensor, source: Any, reduce: str, *, include_self: bool = True) -> Q:
    """`scatter_reduce` with one index for all channels."""
    (at,) = require_quaternion(source, "the source of index_reduce").dims(dim)
    wide = index.view([-1 if d == at else 1 for d in range(source.rank)]).expand(source.user_shape)
    return scatter_reduce(x, dim, wide, source, reduce, include_self=include_self)


def _scattered(x: Any, dim: int, index: Tensor, src: Any) -> tuple[int, Q, Tensor, Q]:
    """The axis and operands of a scatter, the index in stored entries, and the part of the source that it names."""
    at, x, src = _operands(x, dim, src)
    index = entry_index(src, at, index)
    return at, x, index, _as_long_as(index, src)


def _as_long_as(index: Tensor, src: Q) -> Q:
    """The part of the source that an index names, in stored entries."""
    return src.like(src.components[(slice(None), *map(slice, index.shape))], src.axis, src.vectors)


@structural("scatter")
def scatter(x: Any, dim: int, index: Tensor, src: Any = None, reduce: str | None = None, **named: Any) -> Q:
    """Overwrite quaternions at indexed places; 0 may be written, too."""
    src = named.pop("value", src)
    if isinstance(src, (int, float)) and src == 0:
        src = require_quaternion(x, "the target of scatter").same(torch.zeros_like(x.components))
    if reduce is not None:
        return scatter_reduce(x, dim, index, src, {"add": "sum"}.get(reduce, reduce))
    at, x, index, src = _scattered(x, dim, index, src)
    return x.same(x.components.scatter(at + 1, index.expand(x.components.shape[0], *index.shape), src.components))


@structural("scatter_reduce")
def scatter_reduce(x: Any, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True) -> Q:
    """Sums, means and maxima of quaternions that go to the same place; what a maximum is, the rule set says."""
    at, x, index, src = _scattered(x, dim, index, src)
    if reduce in ("sum", "mean"):
        parts = index.expand(src.components.shape[0], *index.shape)
        if reduce == "sum" and include_self:
            return x.same(x.components.scatter_add(at + 1, parts, src.components))
        return x.same(x.components.scatter_reduce(at + 1, parts, src.components, reduce, include_self=include_self))
    if reduce != "amax":
        raise NoRuleError(f"scatter_reduce by {reduce!r}; sum, mean and amax have a rule")
    size = x.stored_shape[at + 1]
    if include_self:
        own = torch.arange(size, device=index.device).view([-1 if d == at else 1 for d in range(index.dim())])
        own = own.expand([size if d == at else length for d, length in enumerate(index.shape)])
        channel_axis, src = src.channel_axis, cat([_as_long_as(own, x), src], at)
        src.channel_axis, index = channel_axis, torch.cat([own, index], at)
    return _maximum(src, at, index, size)


def _maximum(x: Q, dim: int, index: Tensor, size: int) -> Q:
    """The maximum of the rule set (row "Max-pooling") of what goes to each of `size` places."""
    rule = x.context.rules.find("scattered_maximum")
    if rule is None:
        raise NoRuleError(f"the rule set '{x.context.rules.name}' has no maximum")
    if x.context.plan is not None:
        x.context.plan.met("Max-pooling", "scatter_reduce", "quaternion")
    out: Q = rule.apply(x, dim, index, size)
    return out


@structural("segment_reduce")
def segment_reduce(
    data: Any, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0, **named: Any
) -> Q:
    """Sums, means and maxima of runs along the first axis, by their lengths or their ends."""
    if lengths is None and offsets is not None:
        lengths = offsets.diff()
    if lengths is None or lengths.dim() != 1 or axis != 0 or named.get("initial") is not None or not isinstance(data, Q):
        raise NoRuleError("segment_reduce of quaternion features takes lengths= or offsets= of one axis, and axis=0")
    index = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    index = index.view(-1, *[1] * (data.rank - 1)).expand(data.user_shape)
    zeros = data.components.new_zeros(len(lengths), *data.user_shape[1:])
    return scatter_reduce(zeros, 0, index, data, {"max": "amax"}.get(reduce, reduce), include_self=False)


@structural("scatter_max")
def scatter_max(src: Any, index: Tensor, dim: int = -1, out: Any = None, dim_size: int | None = None) -> tuple[Q, Tensor]:
    """The operator of torch_scatter; the index of a winner is not given, since a maximum may be a mean of several."""
    if out is not None:
        raise NoRuleError("scatter_max with out=")
    (at,) = require_quaternion(src, "the source of scatter_max").dims(dim)
    size = int(index.max()) + 1 if dim_size is None else dim_size
    values = _maximum(src, at, entry_index(src, at, index), size)
    return values, torch.full((), -1, device=index.device).expand(values.user_shape)


@structural("embedding")
def embedding(
    first: Any,
    second: Any,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    *rest: Any,
    **named: Any,
) -> Q:
    """Rows of a table of features, by index: a gather. ``F.embedding`` takes the index first, ``torch.embedding`` the table."""
    table, index = (second, first) if isinstance(second, Q) else (first, second)
    if not isinstance(table, Q) or not isinstance(index, Tensor) or isinstance(index, Q) or index.is_floating_point():
        raise NoRuleError("embedding reads rows of a table of features by an integer tensor")
    if max_norm is not None or any(rest) or any(named.values()) or padding_idx not in (None, -1):
        raise NoRuleError("embedding of features with padding_idx, max_norm or scale_grad_by_freq; without them it is a gather")
    return getitem(table, index)


@structural("index_put")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Q:
    """``x[indices] = values`` or, with accumulate, ``+=``, out of place."""
    index = tuple(slice(None) if item is None else item for item in indices)
    if accumulate:
        if len(index) != 1 or not isinstance(index[0], Tensor) or index[0].dim() != 1:
            raise NoRuleError("index_put with accumulate=True and more than one list of indices; use index_add or scatter_add")
        return index_write("index_add", x, 0, index[0], values)
    out: Q = zero_quaternions(x, values).clone()  # type: ignore[assignment]
    setitem(out, index, values)
    return out


@structural("index_fill")
def index_fill(x: Q, dim: int, index: Tensor, value: Any) -> Q:
    """Zeros at indexed places."""
    out: Q = x.clone()  # type: ignore[assignment]
    setitem(out, (slice(None),) * x.dims(dim)[0] + (index,), value)
    return out
