"""Shapes: view, permute, expand, cat, split …: the hidden axis stays in front, the layout follows its axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor

from reqnn import layout as lay
from reqnn.context import ScalarTensor
from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra, same_parts, sizes
from reqnn.tensor import QuaternionTensor as Q


def rule(*names: str) -> Any:
    """A structural rule: nothing but the order of elements changes."""
    return algebra.rule(*names, row="structure", linear=True)


@rule("view", "reshape", "_unsafe_view", "_reshape_alias")
def reshape(x: Q, *shape: Any, **named: Any) -> Q:
    """(*, ) → any shape with the same channels; an axis of vectors is followed (`reqnn.layout.reshape`)."""
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


@rule("view_as", "reshape_as")
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """Reshape to the shape of another tensor; either may be real."""
    return reshape(x, other.shape) if isinstance(x, Q) else x.reshape(other.shape)


@rule("flatten", "ravel")
def flatten(x: Q, start_dim: int = 0, end_dim: int = -1) -> Q:
    """Merge neighbouring axes."""
    if x.rank == 0:
        return reshape(x, 1)
    (start, end), shape = x.dims((start_dim, end_dim)), x.user_shape
    return reshape(x, *shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])


@rule("unflatten")
def unflatten(x: Q, dim: int, sizes: Sequence[int]) -> Q:
    """Split one axis into several."""
    (at,), shape = x.dims(dim), x.user_shape
    return reshape(x, *shape[:at], *lay.resolve(sizes, shape[at]), *shape[at + 1 :])


@rule("squeeze")
def squeeze(x: Q, dim: int | Sequence[int] | None = None) -> Q:
    """Drop axes of size 1; an axis of coordinates has 3 and stays."""
    shape = x.user_shape
    dims = range(x.rank) if dim is None else x.dims(dim)
    return _drop(x, [d for d in dims if shape[d] == 1])


def _drop(x: Q, dims: Sequence[int]) -> Q:
    if not dims:
        return x.same(x.components)
    axis = None if x.axis is None or x.axis in dims else x.axis - sum(d < x.axis for d in dims)
    if x.axis in dims and "s" in x.vectors:
        raise NoRuleError("the axis of a single scalar channel is squeezed away")
    return x.like(x.components.squeeze([d + 1 for d in dims]), axis, x.vectors if axis is not None else "")


@rule("unsqueeze")
def unsqueeze(x: Q, dim: int) -> Q:
    """Insert an axis of size 1."""
    at = _new_axis(x, dim)
    axis = None if x.axis is None else x.axis + (at <= x.axis)
    return x.like(x.components.unsqueeze(at + 1), axis, x.vectors)


def _new_axis(x: Tensor, dim: int) -> int:
    """Where an axis is inserted, from the front."""
    rank = x.dim() + 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


@rule("permute")
def permute(x: Q, *dims: Any, **named: Any) -> Q:
    """Reorder axes."""
    order = x.dims(sizes(dims, named))
    axis = None if x.axis is None else order.index(x.axis)
    return x.like(x.components.permute(0, *[d + 1 for d in order]), axis, x.vectors)


@rule("transpose")
def transpose(x: Q, dim0: int, dim1: int) -> Q:
    """Swap two axes."""
    order = list(range(x.rank))
    a, b = x.dims((dim0, dim1))
    order[a], order[b] = b, a
    return permute(x, order)


@rule("t", "adjoint")
def t(x: Q) -> Q:
    """Swap the last two axes."""
    return x.same(x.components) if x.rank < 2 else transpose(x, -2, -1)


@rule("movedim")
def movedim(x: Q, source: Any, destination: Any) -> Q:
    """Move axes to new places."""
    order = torch.empty(list(range(2, x.rank + 2)), device="meta").movedim(source, destination).shape
    return permute(x, [size - 2 for size in order])


@rule("expand", "broadcast_to", "expand_as")
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


@rule("broadcast_tensors")
def broadcast_tensors(*tensors: Tensor) -> list[Tensor]:
    """Expand all to a common shape."""
    items = sizes(tensors)
    shape = torch.broadcast_shapes(*[item.shape for item in items])
    return [expand(item, shape) for item in items]


@rule("repeat", "tile")
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


@rule("repeat_interleave")
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


@rule("cat")
def cat(tensors: Sequence[Tensor], dim: int = 0, **named: Any) -> Q:
    """Concatenate; along channels the layouts join as strings do."""
    dim = named.get("axis", dim)
    given = [x for x in tensors if not (x.dim() == 1 and x.shape[0] == 0)]
    first_quaternion = next(x for x in given if isinstance(x, Q))
    (at,) = first_quaternion.dims(dim)
    operands = same_parts(*[_quaternion_part(x, "cat", at, first_quaternion) for x in given])
    first, parts = operands[0], [x.components for x in operands]
    if all(x.axis in (None, at) for x in operands):
        layout = "".join(x.layout_on(at) for x in operands)
        return first.like(_join(parts, at + 1), at, layout)
    if any((x.axis, x.vectors) != (first.axis, first.vectors) for x in operands):
        raise NoRuleError("tensors with different axes of coordinates are concatenated")
    return first.same(_join(parts, at + 1))


def _join(parts: list[Tensor], dim: int) -> Tensor:
    """Concatenate in the order that the first has in memory, so that rows stay rows (`reqnn.nn.rows`)."""
    order = sorted(range(parts[0].dim()), key=lambda d: parts[0].stride(d), reverse=True)
    if torch.compiler.is_compiling() or order == sorted(order):
        return torch.cat(parts, dim)
    joined = torch.cat([part.permute(order) for part in parts], order.index(dim))
    return joined.permute([order.index(d) for d in range(len(order))])


@rule("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Q:
    """Concatenate along a new axis."""
    at = _new_axis(tensors[0], dim)
    return cat([x.unsqueeze(at) for x in tensors], at)


@rule("hstack")
def hstack(tensors: Sequence[Tensor]) -> Q:
    """Concatenate along axis 1 (0 for vectors)."""
    return cat(tensors, 0 if tensors[0].dim() < 2 else 1)


@rule("vstack")
def vstack(tensors: Sequence[Tensor]) -> Q:
    """Concatenate along axis 0; vectors are rows."""
    return cat([x.unsqueeze(0) if x.dim() == 1 else x for x in tensors], 0)


def _traced_scalar(x: Tensor) -> bool:
    """While a graph is traced scalars are not marked; the dry run has shown that a real tensor here is one."""
    return torch.compiler.is_compiling() and not isinstance(x, Q)


def _quaternion_part(x: Tensor, what: str, at: int, beside: Q) -> Q:
    """An operand as quaternions: numbers from real inputs become scalars along the axis (an extension of the paper)."""
    if (isinstance(x, ScalarTensor) or _traced_scalar(x)) and not beside.context.strict:
        plain = x.as_subclass(Tensor) if isinstance(x, ScalarTensor) else x
        return beside.like(torch.cat([plain[None], plain.new_zeros(3, *plain.shape)]), at, "s" * plain.shape[at])
    if not isinstance(x, Q):
        raise NoRuleError(
            f"{what} joins quaternion features with a real tensor of shape {tuple(x.shape)}. Numbers that do not turn cannot "
            "stand among vectors: declare input scalars with scalars=, multiply instead of concatenating, or place "
            "Quaternion2Real before (to_real=)"
        )
    return x


def _split(x: Q, section_sizes: list[int], at: int) -> tuple[Q, ...]:
    layout = x.layout_on(at)
    counts = lay.split_sizes(layout, section_sizes) if at == x.axis else section_sizes
    out, start = [], 0
    for part, count in zip(x.components.split(counts, at + 1), counts, strict=True):
        if at == x.axis:
            out.append(x.like(part, at, layout[start : start + count]))
        else:
            out.append(x.same(part))
        start += count
    return tuple(out)


@rule("split", "split_with_sizes", "unsafe_split")
def split(x: Q, split_size_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[Q, ...]:
    """Sections of given sizes, counted in channels."""
    wanted = split_size_or_sections if split_size_or_sections is not None else next(iter(named.values()))
    (at,) = x.dims(dim)
    total = x.user_shape[at]
    if isinstance(wanted, int):
        wanted = [min(wanted, total - start) for start in range(0, total, wanted)]
    return _split(x, list(wanted), at)


@rule("chunk", "unsafe_chunk")
def chunk(x: Q, chunks: int, dim: int = 0) -> tuple[Q, ...]:
    """So many sections, counted in channels."""
    (at,) = x.dims(dim)
    return split(x, -(-x.user_shape[at] // chunks), at)


@rule("tensor_split")
def tensor_split(x: Q, indices_or_sections: Any, dim: int = 0) -> tuple[Q, ...]:
    """Sections at given places, or so many of nearly the same size."""
    (at,) = x.dims(dim)
    total = x.user_shape[at]
    if isinstance(indices_or_sections, int):
        low, extra = divmod(total, indices_or_sections)
        return _split(x, [low + (i < extra) for i in range(indices_or_sections)], at)
    cuts = [0, *[int(i) % total if i < 0 else min(int(i), total) for i in indices_or_sections], total]
    return _split(x, [b - a for a, b in pairwise(cuts)], at)


@rule("roll")
def roll(x: Q, shifts: Any, dims: Any = ()) -> Q:
    """Elements moved round along axes."""
    at = x.dims(dims)
    if x.axis is not None and (not at or x.axis in at):
        raise NoRuleError("roll along the axis of coordinates, or over the flattened tensor")
    if not at:
        return x.same(x.components.flatten(1).roll(shifts, 1).view_as(x.components))
    return x.same(x.components.roll(shifts, [d + 1 for d in at]))


@rule("flip")
def flip(x: Q, *dims: Any, **named: Any) -> Q:
    """Reversed order along axes."""
    at = x.dims(sizes(dims, named))
    if x.axis in at:
        raise NoRuleError("flip along the axis of coordinates")
    return x.same(x.components.flip([d + 1 for d in at]))


@rule("fliplr")
def fliplr(x: Q) -> Q:
    """Reversed order along axis 1."""
    return flip(x, 1)


@rule("flipud")
def flipud(x: Q) -> Q:
    """Reversed order along axis 0."""
    return flip(x, 0)


@rule("pad")
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


@rule("unfold")
def unfold(x: Q, dimension: Any = None, size: int = 0, step: int = 1, **named: Any) -> Q:
    """Sliding windows along one axis (``Tensor.unfold``)."""
    if named or not isinstance(dimension, int):
        raise NoRuleError("F.unfold (im2col) of quaternion features")
    (at,) = x.dims(dimension)
    if at == x.axis:
        raise NoRuleError("windows along the axis of coordinates")
    return x.like(x.components.unfold(at + 1, size, step), x.axis, x.vectors)
