"""Max-pooling as rule sets share it: along an axis, over windows, adaptive, of two tensors, of what is scattered to one place.

A set says by what elements are ordered, and what becomes of the components: those of the winner, their mean, or some of each.
Ties, to rounding, have no winner: `reqnn.kernels.tied` gives their common direction, so that no rounding chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.kernels.tied import scattered, settle, taken
from reqnn.rules.algebra.base import align, broadcast_axis, refuse_over_vectors, same_parts
from reqnn.rules.algebra.reduction import reduced
from reqnn.rules.algebra.shape import flatten
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor as Q

Pick = Callable[[Tensor], Tensor]
"""Components (n, *shape), some or all of an operand's, → what is left of them."""

Combine = Callable[[Q, tuple[int, ...], Pick, Pick], Tensor]
"""(operand, the axes that are pooled, the winner's, the mean) → the components of the result."""


class _Winner:
    """Who wins, found out only when it is asked for: a mean needs no order.

    Args:
        find: → the best scores and their indices, (*out) each.
        scores: → those of all elements.
        pick: (components, indices) → the winners' (n, *out).
        lay: the candidates of each winner on a last axis; see `reqnn.kernels.tied.settle`.
    """

    def __init__(
        self,
        scores: Callable[[], Tensor],
        find: Callable[[Tensor], tuple[Tensor, Tensor]],
        pick: Callable[[Tensor, Tensor], Tensor],
        lay: Callable[[Tensor, float], Tensor],
    ) -> None:
        self._scores, self._find, self._pick, self._lay = scores, find, pick, lay

    @cached_property
    def scores(self) -> Tensor:
        return self._scores().detach()

    @cached_property
    def found(self) -> tuple[Tensor, Tensor]:
        return self._find(self.scores)

    def of(self, parts: Tensor) -> Tensor:
        """The winners' components, (n, *out)."""
        best, index = self.found
        return settle(self._pick(parts, index), best, parts, self.scores, self._lay)

    def or_none(self, like: Tensor) -> Tensor:
        """The indices, or −1 where nobody asked: a mean is none of the elements."""
        return self.found[1] if "found" in self.__dict__ else torch.full((), -1, device=like.device).expand(like.shape[1:])


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
        """Pool along an axis, with the index."""
        (at,) = x.dims(dim)
        refuse_over_vectors(x, [at], "max")
        found: tuple[Q, Tensor] | None = self.shortcut(x, at, keepdim)
        if found is not None:
            return found
        winner = _Winner(
            lambda: self.scores(x),
            lambda scores: scores.max(at),
            lambda parts, index: taken(parts, index, at),
            lambda parts, _: parts.movedim(at + 1, -1),
        )
        parts = self.combine(
            x, (at,), lambda parts: winner.of(parts).unsqueeze(at + 1), lambda parts: parts.mean(at + 1, keepdim=True)
        )
        parts = parts if keepdim else parts.squeeze(at + 1)
        index = winner.or_none(parts)
        return reduced(x, parts, [at], keepdim), index.unsqueeze(at) if keepdim and index.dim() < x.rank else index

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

    def rule(*names: str) -> Any:
        return rules.rule(*names, row="Max-pooling")

    @rule("max")
    def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        """Pool along an axis, with the index; of two tensors, pool the pairs; of everything, one quaternion is left."""
        found = pooling.any_form(x, dim, keepdim, named)
        return torch.return_types.max(found) if isinstance(found, tuple) else found

    rule("amax")(lambda x, dim=(), keepdim=False: pooling.over_all(x, dim, keepdim))
    rule("maximum", "fmax")(lambda a, b: pooling.of_two(a, b))
    rule("scattered_maximum")(pooling.scattered)
    for spatial in (1, 2, 3):
        _register_windows(rule, pooling, spatial)


Windows = Callable[[int, int, int], tuple[int, int] | list[list[int]]]
"""(entries, windows, which axis) → windows side by side as (how many, their size), or the places of each, −1 for none."""


def _in_windows(x: Tensor, windows: list[tuple[int, int] | list[list[int]]], fill: float) -> Tensor:
    """The entries of each window on a last axis: (…, n₁, n₂, …) → (…, windows₁, windows₂, …, K)."""
    axes = len(windows)
    for done, places in enumerate(windows):
        x = x.movedim(-axes - done, -1)
        if isinstance(places, tuple):
            x = x.unflatten(-1, places)
        else:
            at = torch.tensor(places, device=x.device)
            x = torch.where(at >= 0, x[..., at.clamp(min=0)], fill)
    return x.movedim([-2 * (axes - d) + 1 for d in range(axes)], list(range(-axes, 0))).flatten(-axes)


def _register_windows(rule: Any, pooling: Pooling, spatial: int) -> None:
    pool, average, adaptive = (getattr(F, f"{name}{spatial}d") for name in ("max_pool", "avg_pool", "adaptive_avg_pool"))
    largest = getattr(F, f"adaptive_max_pool{spatial}d")

    def pooled(x: Q, find: Callable[[Tensor], tuple[Tensor, Tensor]], windows: Windows, mean: Pick, wanted: bool) -> Any:
        dims = tuple(range(x.rank - spatial, x.rank))
        refuse_over_vectors(x, dims, "pooling")

        def pick(parts: Tensor, index: Tensor) -> Tensor:
            flat = parts.flatten(-spatial)
            return flat.gather(-1, index.flatten(-spatial).expand(*flat.shape[:-1], -1)).unflatten(-1, index.shape[-spatial:])

        def lay(parts: Tensor, fill: float) -> Tensor:
            pairs = zip(parts.shape[-spatial:], winner.found[1].shape[-spatial:], strict=True)
            return _in_windows(parts, [windows(n, out, d) for d, (n, out) in enumerate(pairs)], fill)

        winner = _Winner(lambda: pooling.scores(x), find, pick, lay)

        def averaged(parts: Tensor) -> Tensor:
            if wanted:
                raise NoRuleError("a mean has no index; the option pooling of the rule set chooses a winner")
            return mean(parts.flatten(0, -spatial - 2)).unflatten(0, parts.shape[: -spatial - 1])

        out = x.same(pooling.combine(x, dims, winner.of, averaged))
        return (out, winner.or_none(out.components)) if wanted else out

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

        def mean(parts: Tensor) -> Tensor:
            if any(d != 1 for d in (dilation if isinstance(dilation, Sequence) else (dilation,))):
                raise NoRuleError("a mean has no dilation; the option pooling of the rule set chooses a winner")
            out: Tensor = average(parts, kernel_size, stride or None, padding, ceil_mode, False)
            return out

        def find(scores: Tensor) -> tuple[Tensor, Tensor]:
            best, index = pool(scores, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)
            return best, index

        def windows(n: int, out: int, d: int) -> tuple[int, int] | list[list[int]]:
            size, step, before, apart = (
                option[d] if isinstance(option, Sequence) else option
                for option in (kernel_size, stride or kernel_size, padding, dilation)
            )
            if step == size and not before and apart == 1 and out * size == n:
                return out, size
            starts = (o * step - before for o in range(out))
            return [[i if 0 <= i < n else -1 for i in range(first, first + size * apart, apart)] for first in starts]

        return pooled(x, find, windows, mean, return_indices)

    def adapt(x: Q, output_size: Any, return_indices: bool = False) -> Any:
        """Pool each of so many windows."""
        size = output_size if spatial == 1 or not isinstance(output_size, int) else (output_size,) * spatial
        if not isinstance(size, int):
            size = tuple(n if n is not None else x.user_shape[d - spatial] for d, n in enumerate(size))
        if size in (1, (1,) * spatial) and not return_indices:  # over everything: along one axis
            refuse_over_vectors(x, range(x.rank - spatial, x.rank), "pooling")
            found: Any = pooling.over(flatten(x, -spatial) if spatial > 1 else x, -1, keepdim=True)[0]
            return found if spatial == 1 else found.reshape(*x.user_shape[:-spatial], *[1] * spatial)

        def find(scores: Tensor) -> tuple[Tensor, Tensor]:
            best, index = largest(scores, size, return_indices=True)
            return best, index

        def windows(n: int, out: int, d: int) -> tuple[int, int] | list[list[int]]:
            if n % out == 0:
                return out, n // out
            widest, ranges = -(-n // out) + 1, [(o * n // out, -(-(o + 1) * n // out)) for o in range(out)]
            return [[i if i < last else -1 for i in range(first, first + widest)] for first, last in ranges]

        return pooled(x, find, windows, lambda parts: adaptive(parts, size), return_indices)

    rule(f"max_pool{spatial}d", f"_max_pool{spatial}d")(window)
    rule(f"max_pool{spatial}d_with_indices")(lambda x, *args, **kwargs: window(x, *args, **{**kwargs, "return_indices": True}))
    rule(f"adaptive_max_pool{spatial}d", f"_adaptive_max_pool{spatial}d")(adapt)
    rule(f"adaptive_max_pool{spatial}d_with_indices")(lambda x, size, *_, **__: adapt(x, size, True))
