"""Pooling (Deng et al., section 3.3): the mean, or the vector that goes farthest along its learned direction.

    mean    v̄ = 1/N Σ_n v_n
    max     v_n̂ with n̂ = argmax_n ⟨v_n, k_n⟩, k = W·v, in each channel

The mean is what the published classification networks use; the option ``pooling`` chooses. Minima, top-k and sorting go by
norms, as in the parent set.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import broadcast_axis, refuse_over_vectors
from reqnn.rules.algebra.reduction import reduced
from reqnn.rules.paper.convolution import pointwise
from reqnn.rules.paper.max_pooling import take
from reqnn.rules.vector_neurons.base import channel_axis, choice, uniform, vector_neurons, vectors_of
from reqnn.tensor import QuaternionTensor as Q


def rule(*names: str) -> Any:
    """A rule of this row."""
    return vector_neurons.rule(*names, row="Max-pooling")


def scores(x: Q) -> Tensor:
    """⟨v, W·v⟩ of each element, with the W of this call."""
    vectors = vectors_of(x)
    learned = x.context.learned("pool")
    axis: int = learned.constant("axis", lambda: channel_axis(x))
    channels = vectors.shape[axis + 1]
    direction = learned.parameter("direction", (channels, channels), vectors, uniform)
    return (vectors * pointwise(vectors, direction, axis)).sum(0)


def _takes_mean(x: Q) -> bool:
    return choice(x, "pooling", "mean", "max") == "mean"


def _over(x: Q, dim: int, keepdim: bool) -> tuple[Q, Tensor]:
    """The pooled vectors along one axis, and which they are: −1 for the mean, which is none of them."""
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], "max")
    if _takes_mean(x):
        values = reduced(x, vectors_of(x).mean(at + 1, keepdim=keepdim), [at], keepdim)
        index = torch.full((), -1, device=x.components.device).expand(values.components.shape[1:])
        return values, index
    index = scores(x).argmax(at, keepdim=True)
    return take(x, index, at, keepdim), index if keepdim else index.squeeze(at)


@rule("max")
def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """Pool along an axis; of two tensors, pool the pair; of everything, take the longest."""
    other = named.get("other", named.get("axis", dim))
    if isinstance(other, Tensor) or not isinstance(x, Q):
        return maximum(x, other)
    if other is None:
        assert vector_neurons.parent is not None
        longest: Any = vector_neurons.parent.find("max")
        return longest.apply(x)
    return torch.return_types.max(_over(x, other, keepdim))


@rule("amax")
def amax(x: Q, dim: Any = (), keepdim: bool = False) -> Q:
    """Pool over axes, the last one first."""
    for d in sorted(x.dims(dim) if dim != () else range(x.rank), reverse=True):
        x = _over(x, d, keepdim)[0]
    return x


@rule("maximum", "fmax")
def maximum(a: Any, b: Any) -> Q:
    """Pool two tensors, element by element."""
    if not (isinstance(a, Q) and isinstance(b, Q)):
        raise NoRuleError("the maximum of quaternion features and real numbers")
    axis, layout = broadcast_axis(a, b)
    parts = torch.broadcast_tensors(vectors_of(a), vectors_of(b))
    if _takes_mean(a):
        return a.like((parts[0] + parts[1]) / 2, axis, layout)
    known = a.channel_axis
    pair = [a.like(part, axis, layout) for part in parts]
    for item in pair:
        item.channel_axis = known
    first = scores(pair[0]) >= scores(pair[1])
    return a.like(torch.where(first, parts[0], parts[1]), axis, layout)


def _windows(spatial: int) -> None:
    pool = {1: F.max_pool1d_with_indices, 2: F.max_pool2d_with_indices, 3: F.max_pool3d_with_indices}[spatial]
    largest = {1: torch.adaptive_max_pool1d, 2: torch._C._nn.adaptive_max_pool2d, 3: torch._C._nn.adaptive_max_pool3d}[spatial]
    average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[spatial]
    adaptive = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[spatial]

    def means(x: Q, function: Any, *args: Any) -> Q:
        out = function(vectors_of(x).flatten(0, -spatial - 2), *args)
        return x.same(out.unflatten(0, (3, *x.components.shape[1:-spatial])[:-1]))

    def chosen(x: Q, result: tuple[Tensor, Tensor]) -> tuple[Q, Tensor]:
        index, flat = result[1], x.components.flatten(-spatial)
        picked = flat.gather(-1, index.flatten(-spatial).expand(*flat.shape[:-1], -1)).unflatten(-1, index.shape[-spatial:])
        return x.same(picked), index

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
        refuse_over_vectors(x, range(x.rank - spatial, x.rank), "pooling")
        if not _takes_mean(x):
            out = chosen(x, pool(scores(x), kernel_size, stride, padding, dilation, ceil_mode))
            return out if return_indices else out[0]
        if return_indices or any(d != 1 for d in (dilation if isinstance(dilation, (tuple, list)) else (dilation,))):
            raise NoRuleError("a mean has no index and no dilation; the option pooling='max' of the rule set has")
        return means(x, average, kernel_size, stride or None, padding, ceil_mode, False)

    def adapt(x: Q, output_size: Any, return_indices: bool = False) -> Any:
        """Pool each of so many windows."""
        refuse_over_vectors(x, range(x.rank - spatial, x.rank), "pooling")
        size = output_size if spatial == 1 or not isinstance(output_size, int) else (output_size,) * spatial
        if not isinstance(size, int):
            size = tuple(n if n is not None else x.user_shape[d - spatial] for d, n in enumerate(size))
        if not _takes_mean(x):
            out = chosen(x, largest(scores(x), size))
            return out if return_indices else out[0]
        if return_indices:
            raise NoRuleError("a mean has no index; the option pooling='max' of the rule set has")
        return means(x, adaptive, size)

    rule(f"max_pool{spatial}d", f"_max_pool{spatial}d")(window)
    rule(f"max_pool{spatial}d_with_indices")(lambda x, *args, **kwargs: window(x, *args, **{**kwargs, "return_indices": True}))
    rule(f"adaptive_max_pool{spatial}d", f"_adaptive_max_pool{spatial}d")(adapt)
    rule(f"adaptive_max_pool{spatial}d_with_indices")(lambda x, size, *_, **__: adapt(x, size, True))


for _spatial in (1, 2, 3):
    _windows(_spatial)
