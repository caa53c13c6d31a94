"""Max-pooling as rule sets share it: along an axis, over windows, adaptive, of two tensors, of what is scattered to one place.

A set says by what elements are ordered, and what becomes of the components: those of the winner, their mean, or some of each.
Ties, to rounding, have no winner: `reqnn.kernels.tied` gives their common direction, so that no rounding chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.kernels.tied import longest, scattered
from reqnn.rules.algebra.base import align, broadcast_axis, refuse_over_vectors, same_parts
from reqnn.rules.algebra.reduction import reduced
from reqnn.rules.algebra.shape import flatten
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor as Q

Pick = Callable[[Tensor], Tensor]
"""Components (n, *shape), some or all of an operand's, → what is left of them."""

Combine = Callable[[Q, tuple[int, ...], Pick, Pick], Tensor]
"""(operand, the axes that are pooled, the winner's, the mean) → the components of the result."""


def _longest(x: Q, dims: tuple[int, ...], winner: Pick, mean: Pick) -> Tensor:
    return winner(x.components)


@dataclass(frozen=True)
class Pooling:
    """What a rule set means by a maximum.

    Attributes:
        scores: elements → real numbers (*shape) that order them.
        combine: see `Combine`.
        shortcut: (x, dim, keepdim) → (values, index) if these can be had without the components, else None.
    """

    scores: Callable[[Q], Tensor]
    combine: Combine = _longest
    shortcut: Callable[[Q, int, bool], Any] = lambda x, dim, keepdim: None

    def over(self, x: Q, dim: int, keepdim: bool = False) -> tuple[Q, Tensor]:
        """Pool along an axis, with the index; −1 where nobody chose: a mean is none of the elements."""
        (at,) = x.dims(dim)
        refuse_over_vectors(x, [at], "max")
        found: tuple[Q, Tensor] | None = self.shortcut(x, at, keepdim)
        if found is not None:
            return found
        parts, index = self.along(x, at)
        if index is None:
            index = torch.full((), -1, device=parts.device).expand(parts.shape[1:]).squeeze(at)
        return reduced(x, parts if keepdim else parts.squeeze(at + 1), [at], keepdim), index.unsqueeze(at) if keepdim else index

    def along(self, x: Q, at: int, there: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The components, with size 1 on the axis, and the winner's index, if one was asked for: a mean needs no order.

        Where `there` is false, there is no element.
        """
        chosen: list[Tensor] = []

        @cache  # rules may learn parameters for one call
        def scores() -> Tensor:
            found = self.scores(x).detach()
            return found if there is None else torch.where(there, found, -torch.inf)

        def winner(parts: Tensor) -> Tensor:
            values, index = longest(parts, at, scores())
            chosen.append(index)
            return values.unsqueeze(at + 1)

        def mean(parts: Tensor) -> Tensor:
            if there is None:
                return parts.mean(at + 1, keepdim=True)
            return (parts * there).sum(at + 1, keepdim=True) / there.sum(-1, keepdim=True)

        parts = self.combine(x, (at,), winner, mean)
        return parts, chosen[0] if chosen else None

    def over_all(self, x: Q, dim: Any = (), keepdim: bool = False) -> Q:
        """Pool over axes, the last one first."""
        for d in sorted(x.dims(dim) if dim != () else range(x.rank), reverse=True):
            x = self.over(x, d, keepdim)[0]
        return x

    def any_form(self, x: Any, dim: Any, keepdim: bool, named: dict[str, Any]) -> Any:
        """``max`` as torch has it: along an axis, with the index; of two tensors; of everything."""
        other = named.get("other", dim)
        if isinstance(other, Tensor) or not isinstance(x, Q):
            return self.of_two(x, other)
        if other is None:
            refuse_over_vectors(x, range(x.rank), "max")
            return self.over(flatten(x), 0)[0]
        return self.over(x, other, keepdim)

    def of_two(self, a: Any, b: Any) -> Q:
        """Pool two tensors, element by element."""
        if not (isinstance(a, Q) and isinstance(b, Q)):
            raise NoRuleError("the maximum or minimum of quaternion features and real numbers")
        known = a.channel_axis
        a, b = same_parts(a, b)
        axis, layout = broadcast_axis(a, b)
        rank = max(a.rank, b.rank)
        pair = torch.broadcast_tensors(align(a.components, rank), align(b.components, rank))
        both = a.like(torch.stack(pair, dim=-1), None if axis is None else axis - 1, layout)
        both.channel_axis = known
        return self.over(both, rank)[0]

    def scattered(self, x: Q, dim: int, index: Tensor, size: int) -> Q:
        """Pool the elements that go to the same of `size` places along an axis; a place that none goes to is 0.

        Shapes: index as x in stored entries
        """
        shape = [size if d == dim else length for d, length in enumerate(index.shape)]

        def chosen(parts: Tensor) -> Tensor:
            scores = self.scores(x).detach()
            best = scores.new_zeros(shape).scatter_reduce(dim, index, scores, "amax", include_self=False)
            return scattered(parts, scores, best, dim, index)

        def mean(parts: Tensor) -> Tensor:
            at = index.expand(parts.shape[0], *index.shape)
            return parts.new_zeros(parts.shape[0], *shape).scatter_reduce(dim + 1, at, parts, "mean", include_self=False)

        return x.like(self.combine(x, (dim,), chosen, mean), x.axis, x.vectors)


def register_pooling(rules: RuleSet, pooling: Pooling) -> None:
    """Give a set its rules for max-pooling."""
    register_order(rules, pooling, "max")
    rule = partial(rules.rule, row="Max-pooling")
    rule("scattered_maximum")(pooling.scattered)
    for spatial in (1, 2, 3):
        _register_windows(rule, pooling, spatial)


def register_order(rules: RuleSet, pooling: Pooling, end: str, extension: bool = False) -> None:
    """Give a set its ``max``, ``amax``, ``maximum`` and ``fmax``, or those of the other `end` of the order, "min"."""
    rule = partial(rules.rule, row="Max-pooling", extension=extension)

    @rule(end)
    def over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        """Pool along an axis, with the index; of two tensors, pool the pairs; of everything, one quaternion is left."""
        found = pooling.any_form(x, dim, keepdim, named)
        return getattr(torch.return_types, end)(found) if isinstance(found, tuple) else found

    rule(f"a{end}")(lambda x, dim=(), keepdim=False: pooling.over_all(x, dim, keepdim))
    rule(f"{end}imum", f"f{end}")(lambda a, b: pooling.of_two(a, b))


Windows = tuple[int, int] | list[list[int]]
"""Windows side by side along an axis, as (how many, their size), or the places of each, −1 for none."""


def _in_windows(x: Tensor, windows: list[Windows]) -> Tensor:
    """The entries of each window on a last axis, −1 for none: (…, n₁, n₂, …) → (…, windows₁, windows₂, …, K)."""
    axes = len(windows)
    for done, places in enumerate(windows):
        x = x.movedim(-axes - done, -1)
        if isinstance(places, tuple):
            x = x.unflatten(-1, places)
        else:
            at = torch.tensor(places, device=x.device)
            x = torch.where(at >= 0, x[..., at.clamp(min=0)], -1)
    return x.movedim([-2 * (axes - d) + 1 for d in range(axes)], list(range(-axes, 0))).flatten(-axes)


def _pool_windows(pooling: Pooling, x: Q, windows: list[Windows], return_indices: bool) -> Any:
    """Pool each window: an axis of its own."""
    axes = len(windows)
    if not return_indices and all(places[0] == 1 for places in windows):  # over everything: one axis, in no other order
        found: Any = pooling.over(flatten(x, -axes) if axes > 1 else x, -1, keepdim=True)[0]
        return found if axes == 1 else found.reshape(*x.user_shape[:-axes], *[1] * axes)
    sizes = x.stored_shape[-axes:]
    laid = x.like(_in_windows(x.components, windows), x.axis, x.vectors)
    laid.channel_axis = x.channel_axis
    places = None
    if return_indices or any(isinstance(axis, list) for axis in windows):
        places = _in_windows(torch.arange(sizes.numel(), device=x.device).view(sizes), windows)
    parts, index = pooling.along(laid, x.rank, None if places is None else places >= 0)
    out = x.same(parts.squeeze(-1))
    if not return_indices:
        return out
    if index is None or places is None:
        raise NoRuleError("a mean has no index; the option pooling of the rule set chooses a winner")
    return out, places.expand(*index.shape, -1).gather(-1, index.unsqueeze(-1)).squeeze(-1)


def _register_windows(rule: Any, pooling: Pooling, spatial: int) -> None:
    pool = getattr(F, f"max_pool{spatial}d")

    def sizes_of(x: Q) -> torch.Size:
        refuse_over_vectors(x, range(x.rank - spatial, x.rank), "pooling")
        return x.stored_shape[-spatial:]

    def window(
        x: Q,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """Pool each window."""
        sizes, options = sizes_of(x), (kernel_size, stride or kernel_size, padding, dilation)
        outs = pool(x.components.new_empty(1, 1, *sizes, device="meta"), *options, ceil_mode).shape[2:]
        per_axis = [option if isinstance(option, Sequence) else (option,) * spatial for option in options]
        return _pool_windows(pooling, x, list(map(_sliding, sizes, outs, *per_axis)), return_indices)

    def adapt(x: Q, output_size: Any, return_indices: bool = False) -> Any:
        """Pool each of so many windows."""
        outs = output_size if isinstance(output_size, Sequence) else (output_size,) * spatial
        windows = [_even(n, n if out is None else out) for n, out in zip(sizes_of(x), outs, strict=True)]
        return _pool_windows(pooling, x, windows, return_indices)

    rule(f"max_pool{spatial}d", f"_max_pool{spatial}d")(window)
    rule(f"max_pool{spatial}d_with_indices")(lambda x, *args, **kwargs: window(x, *args, **{**kwargs, "return_indices": True}))
    rule(f"adaptive_max_pool{spatial}d", f"_adaptive_max_pool{spatial}d")(adapt)
    rule(f"adaptive_max_pool{spatial}d_with_indices")(lambda x, size, *_, **__: adapt(x, size, True))


def _sliding(n: int, out: int, size: int, step: int, before: int, apart: int) -> Windows:
    """`out` windows of `size` entries along an axis of n."""
    if step == size and not before and apart == 1 and out * size == n:
        return out, size
    starts = (o * step - before for o in range(out))
    return [[i if 0 <= i < n else -1 for i in range(first, first + size * apart, apart)] for first in starts]


def _even(n: int, out: int) -> Windows:
    """`out` windows of about the same size that cover an axis of n."""
    if out < 1:
        raise RuntimeError(f"adaptive pooling to size {out}")
    if n % out == 0:
        return out, n // out
    widest, ranges = -(-n // out) + 1, [(o * n // out, -(-(o + 1) * n // out)) for o in range(out)]
    return [[i if i < last else -1 for i in range(first, first + widest)] for first, last in ranges]
