"""This set on gathered storage: linear maps and the mean over neighbours (`reqnn.nn.vector_grouped`).

Batch-norm and ReLU choose it themselves. Each function has the arguments of its rule and returns NotImplemented where the rule
has to run on an ordinary tensor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reqnn.nn.vector_grouped import Product, VectorGrouped
from reqnn.rules.algebra.gathering import mean
from reqnn.rules.options import choice
from reqnn.rules.paper import grouped as of_paper
from reqnn.rules.paper.convolution import is_pointwise, refuse_elsewhere
from reqnn.rules.vector_neurons.base import vector_neurons
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, Weighted, form_of, wrap


def _inherited(name: str) -> Any:
    """Decorate the gathered form of a rule that this set has from its parent."""

    def register(function: Any) -> Any:
        rule = vector_neurons.find(name)
        assert rule is not None
        vector_neurons.functions[name] = replace(rule, gathered=function)
        return function

    return register


def mapped(x: Any, weight: Any, bias: Tensor | None, channels: int) -> Any:
    """W·f, before the gather or row by row behind a batch-norm and ReLU."""
    kept = form_of(x, (Gathered, VectorGrouped))
    if kept is None or kept.axis != channels or kept.raw.shape[0] != 3 or x.rank == 2 or isinstance(weight, Q):
        return NotImplemented
    refuse_elsewhere(x, channels)
    weight = x.context.fit(weight, 1, x.layout_on(channels)).flatten(1)
    if weight.shape[1] != kept.width or weight.dtype != x.dtype:
        return NotImplemented
    x.context.drop_bias(bias)
    return wrap(Product.of(kept, weight) if isinstance(kept, Gathered) else kept.linear(weight), x, channels)


@_inherited("linear")
def linear(x: Any, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Along the last axis."""
    return mapped(x, weight, bias, x.rank - 1) if isinstance(x, Q) else NotImplemented


def _convolution(spatial: int) -> Any:
    def apply(x: Any, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Q) or not is_pointwise(weight, args, kwargs):
            return NotImplemented
        return mapped(x, weight, bias, x.rank - spatial - 1)

    return apply


for _spatial in (1, 2, 3):
    _inherited(f"conv{_spatial}d")(_convolution(_spatial))


@_inherited("matmul")
def matmul(a: Any, b: Any) -> Any:
    """Σ_j f_j ⊗ w_j over neighbours (PointConv): the sum of the parent set, on rows behind batch-norm and ReLU."""
    kept = form_of(a, (VectorGrouped, Weighted))
    form = kept.form if isinstance(kept, Weighted) else kept
    if not isinstance(form, VectorGrouped):
        return of_paper.matmul(a, b)
    if form.groups.padded or isinstance(b, Q):
        return NotImplemented
    same = form.as_grouped()
    return of_paper.matmul(wrap(replace(kept, form=same) if isinstance(kept, Weighted) else same, a, form.axis), b)


def pooled(x: Any, dim: int, keepdim: bool) -> Any:
    """The mean along the neighbours, where that is what pooling means."""
    if not isinstance(x, Q) or x.stored_shape[0] != 3 or choice(x, "pooling", "mean", "max") != "mean":
        return NotImplemented
    return mean(x, dim, keepdim)


@vector_neurons.gathered("max")
def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """``x.max(dim)`` over neighbours; a mean is none of them, and its index is −1."""
    found = pooled(x, dim, keepdim) if isinstance(dim, int) and not named else NotImplemented
    if found is NotImplemented:
        return found
    return torch.return_types.max((found, torch.full((), -1, device=found.device).expand(found.stored_shape[1:])))


@vector_neurons.gathered("amax")
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """``x.amax(dim)`` over neighbours."""
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    return pooled(x, dim, keepdim) if isinstance(dim, int) else NotImplemented


@vector_neurons.gathered("adaptive_max_pool1d")
def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """One window is all neighbours."""
    one = output_size in (1, (1,), [1]) and not return_indices
    return pooled(x, -1, True) if one else NotImplemented


@vector_neurons.gathered("max_pool2d")
def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *args: Any, **named: Any) -> Any:
    """A window of one place by all neighbours."""
    window, step = _pair(kernel_size), _pair(stride or kernel_size)
    plain = _pair(padding) == (0, 0) and _pair(named.pop("dilation", 1)) == (1, 1) and not args and not any(named.values())
    for dim in (2, 3) if plain and x.rank == 4 else ():
        other = 3 - dim  # of the two spatial axes, counted from 0
        if window[dim - 2] == x.user_shape[dim] and window[other] == step[other] == 1:
            return pooled(x, dim, True)
    return NotImplemented


def _pair(value: Any) -> tuple[Any, Any]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)
