"""What rule sets share on gathered storage: 1×1 convolutions are linear maps, a window over all neighbours is a pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reqnn.rules.paper.convolution import is_pointwise
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor as Q


def register_linear(rules: RuleSet, mapped: Callable[[Q, Tensor, Tensor | None, int], Any]) -> None:
    """Give a set its linear maps: `mapped` (x, weight, bias, the axis of the channels) → features or NotImplemented."""

    def layer(spatial: int) -> Callable[..., Any]:
        def apply(x: Any, weight: Any, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(x, Q) or isinstance(weight, Q) or (spatial and not is_pointwise(weight, args, kwargs)):
                return NotImplemented
            return mapped(x, weight, bias, x.rank - spatial - 1)

        return apply

    rules.gathered("linear")(layer(0))
    for spatial in (1, 2, 3):
        rules.gathered(f"conv{spatial}d")(layer(spatial))


def register_max(rules: RuleSet, pooled: Callable[[Q, int, bool], Any]) -> None:
    """Give a set its maximum over neighbours: `pooled` (x, dim, keepdim) → (values, index) or NotImplemented."""

    def values(x: Q, dim: Any, keepdim: bool) -> Any:
        dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
        found = pooled(x, dim, keepdim) if isinstance(dim, int) else NotImplemented
        return found if found is NotImplemented else found[0]

    @rules.gathered("max")
    def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        if not isinstance(x, Q) or not isinstance(dim, int) or named:
            return NotImplemented
        found = pooled(x, dim, keepdim)
        return found if found is NotImplemented else torch.return_types.max(found)

    @rules.gathered("amax")
    def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
        return values(x, dim, keepdim)

    @rules.gathered("adaptive_max_pool1d")
    def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        one = output_size in (1, (1,), [1]) and not return_indices
        return values(x, -1, True) if one else NotImplemented

    @rules.gathered("max_pool2d")
    def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *args: Any, **named: Any) -> Any:
        window, step = _pair(kernel_size), _pair(stride or kernel_size)
        plain = _pair(padding) == (0, 0) and _pair(named.pop("dilation", 1)) == (1, 1) and not args and not any(named.values())
        for dim in (2, 3) if plain and x.rank == 4 else ():
            other = 3 - dim  # of the two spatial axes, counted from 0
            if window[dim - 2] == x.user_shape[dim] and window[other] == step[other] == 1:
                return values(x, dim, True)
        return NotImplemented


def _pair(value: Any) -> tuple[Any, Any]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)
