"""Max-pooling as rule sets share it: along an axis, over windows, adaptive, of two tensors.

A set says by what elements are ordered, and what becomes of the components: those of the winner, their mean, or some of each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
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
    """Where the winners are, found out only when it is asked for: a mean needs no order."""

    def __init__(self, find: Callable[[], Tensor]) -> None:
        self._find = find

    @cached_property
    def index(self) -> Tensor:
        return self._find()

    def or_none(self, like: Tensor) -> Tensor:
        """The indices, or −1 where nobody asked: a mean is none of the elements."""
        asked = "index" in self.__dict__
        return self.index if asked else torch.full((), -1, device=like.device).expand(like.shape[1:])


def register_pooling(rules: RuleSet, scores: Callable[[Q], Tensor], combine: Combine) -> None:
    """Give a set its rules for max-pooling.

    Args:
        scores: elements → real numbers (*shape) that order them.
        combine: see `Combine`.
    """

    def rule(*names: str) -> Any:
        return rules.rule(*names, row="Max-pooling")

    def over(x: Q, dim: int, keepdim: bool) -> tuple[Q, Tensor]:
        (at,) = x.dims(dim)
        refuse_over_vectors(x, [at], "max")
        winner = _Winner(lambda: scores(x).argmax(at, keepdim=True))
        parts = combine(
            x,
            (at,),
            lambda parts: parts.gather(at + 1, winner.index.expand(parts.shape[0], *winner.index.shape)),
            lambda parts: parts.mean(at + 1, keepdim=True),
        )
        index = winner.or_none(parts)
        values = reduced(x, parts if keepdim else parts.squeeze(at + 1), [at], keepdim)
        return values, index if keepdim else index.squeeze(at)

    @rule("max")
    def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        """Pool along an axis, with the index; of two tensors, pool the pairs; of everything, one quaternion is left."""
        other = named.get("other", named.get("axis", dim))
        if isinstance(other, Tensor) or not isinstance(x, Q):
            return maximum(x, other)
        if other is None:
            refuse_over_vectors(x, range(x.rank), "max")
            return over(flatten(x), 0, False)[0]
        return torch.return_types.max(over(x, other, keepdim))

    @rule("amax")
    def amax(x: Q, dim: Any = (), keepdim: bool = False) -> Q:
        """Pool over axes, the last one first."""
        for d in sorted(x.dims(dim) if dim != () else range(x.rank), reverse=True):
            x = over(x, d, keepdim)[0]
        return x

    @rule("maximum", "fmax")
    def maximum(a: Any, b: Any) -> Q:
        """Pool two tensors, element by element."""
        if not (isinstance(a, Q) and isinstance(b, Q)):
            raise NoRuleError("the maximum of quaternion features and real numbers")
        known = a.channel_axis
        a, b = same_parts(a, b)
        axis, layout = broadcast_axis(a, b)
        rank = max(a.rank, b.rank)
        left, right = torch.broadcast_tensors(align(a.components, rank), align(b.components, rank))
        both = a.like(torch.stack([left, right], dim=-1), None if axis is None else axis - 1, layout)
        both.channel_axis = known
        winner = _Winner(lambda: scores(both).argmax(-1, keepdim=True))
        parts = combine(
            both,
            (rank,),
            lambda parts: parts.gather(-1, winner.index.expand(parts.shape[0], *winner.index.shape)),
            lambda parts: parts.mean(-1, keepdim=True),
        )
        return a.like(parts.squeeze(-1), axis, layout)

    for spatial in (1, 2, 3):
        _register_windows(rule, scores, combine, spatial)


def _register_windows(rule: Any, scores: Callable[[Q], Tensor], combine: Combine, spatial: int) -> None:
    pool, average, adaptive = (getattr(F, f"{name}{spatial}d") for name in ("max_pool", "avg_pool", "adaptive_avg_pool"))
    largest = getattr(F, f"adaptive_max_pool{spatial}d")

    def pooled(x: Q, find: Callable[[], Tensor], mean: Callable[[Tensor], Tensor], wanted: bool) -> Any:
        dims = tuple(range(x.rank - spatial, x.rank))
        refuse_over_vectors(x, dims, "pooling")
        winner = _Winner(find)

        def chosen(parts: Tensor) -> Tensor:
            index, flat = winner.index, parts.flatten(-spatial)
            picked = flat.gather(-1, index.flatten(-spatial).expand(*flat.shape[:-1], -1))
            return picked.unflatten(-1, index.shape[-spatial:])

        def averaged(parts: Tensor) -> Tensor:
            return mean(parts.flatten(0, -spatial - 2)).unflatten(0, parts.shape[: -spatial - 1])

        out = x.same(combine(x, dims, chosen, averaged))
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
            if return_indices or any(d != 1 for d in (dilation if isinstance(dilation, (tuple, list)) else (dilation,))):
                raise NoRuleError("a mean has no index and no dilation; the option pooling of the rule set chooses a winner")
            out: Tensor = average(parts, kernel_size, stride or None, padding, ceil_mode, False)
            return out

        def find() -> Tensor:
            index: Tensor = pool(scores(x), kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)[1]
            return index

        return pooled(x, find, mean, return_indices)

    def adapt(x: Q, output_size: Any, return_indices: bool = False) -> Any:
        """Pool each of so many windows."""
        size = output_size if spatial == 1 or not isinstance(output_size, int) else (output_size,) * spatial
        if not isinstance(size, int):
            size = tuple(n if n is not None else x.user_shape[d - spatial] for d, n in enumerate(size))

        def mean(parts: Tensor) -> Tensor:
            if return_indices:
                raise NoRuleError("a mean has no index; the option pooling of the rule set chooses a winner")
            out: Tensor = adaptive(parts, size)
            return out

        return pooled(x, lambda: largest(scores(x), size, return_indices=True)[1], mean, return_indices)

    rule(f"max_pool{spatial}d", f"_max_pool{spatial}d")(window)
    rule(f"max_pool{spatial}d_with_indices")(lambda x, *args, **kwargs: window(x, *args, **{**kwargs, "return_indices": True}))
    rule(f"adaptive_max_pool{spatial}d", f"_adaptive_max_pool{spatial}d")(adapt)
    rule(f"adaptive_max_pool{spatial}d_with_indices")(lambda x, size, *_, **__: adapt(x, size, True))
