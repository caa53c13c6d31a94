"""Joining and cutting: cat, stack, split, chunk …: layouts join as strings do, and are cut between whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import as_real_part, same_parts, structural, zero_quaternions
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay
from reqnn.tensor.markers import RemovedBias, ScalarTensor
from reqnn.tensor.quaternion_tensor import is_zeros


@structural("cat")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Q:
    """Concatenate; along channels the layouts join as strings do."""
    given = [x for x in tensors if not (x.dim() == 1 and x.shape[0] == 0)]
    first_quaternion = next(x for x in given if isinstance(x, Q))
    (at,) = first_quaternion.dims(dim)
    operands = same_parts(*[_quaternion_part(x, "cat", at, first_quaternion) for x in given])
    first, parts = operands[0], [x.components for x in operands]
    if all(x.axis in (None, at) for x in operands):
        layout = "".join(x.layout_on(at) for x in operands)
        return first.like(_join(parts, at + 1), at, layout)
    if any((x.axis, x.vectors) != (first.axis, first.vectors) for x in operands):
        for x in operands:
            if x.axis is None and x.context.plan is not None:
                x.context.plan.output_vectors(x)  # a cloud that a layer predicts, beside one that is given
        raise NoRuleError("tensors with different axes of coordinates are concatenated")
    return first.same(_join(parts, at + 1))


def _join(parts: list[Tensor], dim: int) -> Tensor:
    """Concatenate in the order that the first has in memory, so that rows stay rows (`reqnn.kernels.rows`)."""
    order = sorted(range(parts[0].dim()), key=lambda d: parts[0].stride(d), reverse=True)
    if torch.compiler.is_compiling() or order == sorted(order):
        return torch.cat(parts, dim)
    joined = torch.cat([part.permute(order) for part in parts], order.index(dim))
    return joined.permute([order.index(d) for d in range(len(order))])


def _traced_scalar(x: Tensor) -> bool:
    """While a graph is traced scalars are not marked; the dry run has shown that a real tensor here is one."""
    return torch.compiler.is_compiling() and not isinstance(x, Q)


def _quaternion_part(x: Tensor, what: str, at: int, beside: Q) -> Q:
    """An operand as quaternions: real numbers become scalars along the axis of channels (an extension of the paper).

    These are numbers from real inputs, or invariants such as distances. A learned token is a bias: of it, zeros are left.
    """
    if isinstance(x, Q):
        return x
    plain = x.as_subclass(Tensor) if isinstance(x, (ScalarTensor, RemovedBias)) else x
    if isinstance(x, RemovedBias) or (at != beside.axis and is_zeros(x)):
        return zero_quaternions(plain, beside)
    real = as_real_part(plain, beside)
    if real is not None:
        return real
    if _is_token(x, at, beside):
        return zero_quaternions(torch.zeros_like(plain), beside)
    scalar = isinstance(x, ScalarTensor) or _traced_scalar(x)
    if (scalar or _is_invariant(x, at, beside)) and not beside.context.strict:
        if not scalar and beside.context.plan is not None:
            beside.context.plan.met("Invariants beside vectors", what, "quaternion", extension=True)
        return beside.like(torch.cat([plain[None], plain.new_zeros(3, *plain.shape)]), at, "s" * plain.shape[at])
    raise NoRuleError(
        f"{what} joins quaternion features with a real tensor of shape {tuple(x.shape)}. Numbers that do not rotate cannot "
        "stand among vectors: declare input scalars with scalars=, multiply instead of concatenating, or place "
        "Quaternion2Real before (to_real=)"
    )


def _is_token(x: Tensor, at: int, beside: Q) -> bool:
    """Whether a parameter stands among points, as class tokens do; it is dropped, as a bias is."""
    plan, channels = beside.context.plan, beside.axis if beside.axis is not None else beside.channel_axis
    if plan is None or (channels is None and x.stride(at)) or channels == at:
        return False
    return plan.owner(x) is not None and plan.drop(x)


def _is_invariant(x: Tensor, at: int, beside: Q) -> bool:
    """Whether real numbers stand along the axis of channels of a revised network, and are none of its parameters."""
    context = beside.context
    if not context.names or not x.is_floating_point():
        return False  # no revised network
    if context.plan is None:
        return True  # as the dry run found
    channels = beside.axis if beside.axis is not None else beside.channel_axis
    return channels == at and context.plan.owner(x) is None


def _split(x: Q, section_sizes: list[int], at: int) -> tuple[Q, ...]:
    layout = x.layout_on(at)
    counts = lay.split_sizes(layout, section_sizes) if at == x.axis else section_sizes
    out, start = [], 0
    for part, count in zip(x.components.split(counts, at + 1), counts, strict=True):
        if at == x.axis:
            held = layout[start : start + count]
            out.append(x.like(part[-3:] if "s" in layout and "s" not in held else part, at, held))
        else:
            out.append(x.same(part))
        start += count
    return tuple(out)


@structural("split", "split_with_sizes", "unsafe_split")
def split(x: Q, split_size_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[Q, ...]:
    """Sections of given sizes, counted in channels."""
    wanted = split_size_or_sections if split_size_or_sections is not None else next(iter(named.values()))
    (at,) = x.dims(dim)
    total = x.user_shape[at]
    if isinstance(wanted, int):
        wanted = [min(wanted, total - start) for start in range(0, total, wanted)]
    return _split(x, list(wanted), at)


@structural("tensor_split")
def tensor_split(x: Q, indices_or_sections: Any, dim: int = 0) -> tuple[Q, ...]:
    """Sections at given places, or so many of nearly the same size."""
    (at,) = x.dims(dim)
    total = x.user_shape[at]
    if isinstance(indices_or_sections, int):
        low, extra = divmod(total, indices_or_sections)
        return _split(x, [low + (i < extra) for i in range(indices_or_sections)], at)
    cuts = [0, *[int(i) % total if i < 0 else min(int(i), total) for i in indices_or_sections], total]
    return _split(x, [b - a for a, b in pairwise(cuts)], at)
