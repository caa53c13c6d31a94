"""Sums and multiples of gathered features, channels side by side, sums over neighbours (`reqnn.tensor.gathered`).

Each function takes the arguments of the rule of its name and returns NotImplemented if it has no gathered form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels.rows import from_rows
from reqnn.rules.algebra.base import algebra, as_real_part, per_entry
from reqnn.rules.algebra.gathered_structure import moved
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, Summed, Weighted, as_term, form_of, wrap
from reqnn.tensor.markers import RemovedBias
from reqnn.tensor.terms import Term


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
        return moved(a, form_of(a)) if shape == a.user_shape else NotImplemented
    if isinstance(sign, Tensor):
        return NotImplemented
    x = a if isinstance(a, Q) else b
    a, b = (y if isinstance(y, Q) or form_of(x) is None else as_real_part(y, x) for y in (a, b))
    if not (isinstance(a, Q) and isinstance(b, Q)):
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
    return moved(x, form.with_rows(lambda term, first: replace(term, factor=term.factor * factor)))


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

        return moved(x, replace(form.with_rows(scaled), sources=()))
    if shape[form.axis] != 1:
        return NotImplemented
    folded = _per_cloud(form, factor.squeeze(form.axis))
    return moved(x, folded) if folded is not None else _weighted(x, form, factor)


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
