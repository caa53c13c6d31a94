"""Table 1, "Max-pooling": maxPool(f) = f_v̂ with v̂ = argmax_v ‖f_v‖ (paper, section 3.3, equation 7; appendix C.4).

Over an axis, over windows, adaptive; element-wise, channel by channel, as in appendix D. The gradient goes to the winner.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.nn.deferred import Deferred
from reqnn.rules.algebra.base import align, broadcast_axis, refuse_over_vectors, same_parts
from reqnn.rules.algebra.reduction import reduced
from reqnn.rules.algebra.shape import flatten
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q


def rule(*names: str, extension: bool = False) -> Any:
    """A rule of this row."""
    return paper.rule(*names, row="Max-pooling", extension=extension)


def take(x: Q, index: Tensor, dim: int, keepdim: bool) -> Q:
    """The quaternions at `index` (one for each place, axis `dim` of size 1)."""
    out = x.components.gather(dim + 1, index.expand(x.components.shape[0], *index.shape))
    return reduced(x, out if keepdim else out.squeeze(dim + 1), [dim], keepdim)


def _extreme(x: Q, other: Any, keepdim: bool, largest: bool) -> Any:
    if isinstance(other, Q):
        return _elementwise(x, other, largest)
    if other is None:
        refuse_over_vectors(x, range(x.rank), "max")
        return _extreme(flatten(x), 0, False, largest)[0]
    if isinstance(other, Tensor):
        raise NoRuleError("the maximum of quaternion features and real numbers")
    (at,) = x.dims(other)
    refuse_over_vectors(x, [at], "max")
    kind = torch.return_types.max if largest else torch.return_types.min
    if largest and isinstance(x.deferred, Deferred) and x.axis is None and at > 1:  # scaling and ReLU keep the order of norms
        deferred, index = x.deferred.longest(at, keepdim)
        return kind((x.defer(deferred), index))
    norms = x.squared_norm()
    index = (norms if largest else -norms).argmax(at, keepdim=True)
    values = take(x, index, at, keepdim)
    return kind((values, index if keepdim else index.squeeze(at)))


@rule("max")
def maximum_over(x: Q, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """The longest quaternion along an axis, with its index; of two tensors, the longer element."""
    return _extreme(x, named.get("other", named.get("axis", dim)), keepdim, largest=True)


@rule("min", extension=True)
def minimum_over(x: Q, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """The shortest quaternion along an axis."""
    return _extreme(x, named.get("other", named.get("axis", dim)), keepdim, largest=False)


@rule("amax")
def amax(x: Q, dim: Any = (), keepdim: bool = False) -> Q:
    """The longest quaternion over axes."""
    dims = sorted(x.dims(dim) if dim != () else range(x.rank), reverse=True)
    for d in dims:
        x = _extreme(x, d, keepdim, largest=True).values
    return x


@rule("amin", extension=True)
def amin(x: Q, dim: Any = (), keepdim: bool = False) -> Q:
    """The shortest quaternion over axes."""
    dims = sorted(x.dims(dim) if dim != () else range(x.rank), reverse=True)
    for d in dims:
        x = _extreme(x, d, keepdim, largest=False).values
    return x


@rule("minimum", "fmin", extension=True)
def minimum(a: Any, b: Any) -> Q:
    """The shorter of two quaternions, element by element."""
    if not (isinstance(a, Q) and isinstance(b, Q)):
        raise NoRuleError("the minimum of quaternion features and real numbers")
    return _elementwise(a, b, largest=False)


@rule("maximum", "fmax")
def maximum(a: Any, b: Any) -> Q:
    """The longer of two quaternions, element by element."""
    if not (isinstance(a, Q) and isinstance(b, Q)):
        raise NoRuleError("the maximum of quaternion features and real numbers")
    return _elementwise(a, b, largest=True)


def _elementwise(a: Q, b: Q, largest: bool) -> Q:
    a, b = same_parts(a, b)
    axis, layout = broadcast_axis(a, b)
    rank = max(a.rank, b.rank)
    left, right = align(a.components, rank), align(b.components, rank)
    first = left.square().sum(0) >= right.square().sum(0)
    return a.like(torch.where(first if largest else ~first, left, right), axis, layout)


@rule("argmax", extension=True)
def argmax(x: Q, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the longest quaternion."""
    refuse_over_vectors(x, range(x.rank) if dim is None else x.dims(dim), "argmax")
    return x.squared_norm().argmax(dim, keepdim)


@rule("topk", extension=True)
def topk(x: Q, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k longest quaternions along an axis."""
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], "topk")
    index = x.squared_norm().topk(k, at, largest, sorted).indices
    values = x.same(x.components.gather(at + 1, index.expand(x.components.shape[0], *index.shape)))
    return torch.return_types.topk((values, index))


@rule("sort", extension=True)
def sort(x: Q, dim: int = -1, descending: bool = False, **named: Any) -> Any:
    """Quaternions ordered by length."""
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], "sort")
    index = x.squared_norm().argsort(dim=at, descending=descending)
    values = x.same(x.components.gather(at + 1, index.expand(x.components.shape[0], *index.shape)))
    return torch.return_types.sort((values, index))


def _windows(spatial: int) -> None:
    pool = {1: F.max_pool1d_with_indices, 2: F.max_pool2d_with_indices, 3: F.max_pool3d_with_indices}[spatial]
    adaptive = {1: torch.adaptive_max_pool1d, 2: torch._C._nn.adaptive_max_pool2d, 3: torch._C._nn.adaptive_max_pool3d}[spatial]

    def norms(x: Q) -> Tensor:
        refuse_over_vectors(x, range(x.rank - spatial, x.rank), "pooling")
        return x.squared_norm()

    def choose(x: Q, result: tuple[Tensor, Tensor]) -> tuple[Q, Tensor]:
        index = result[1]
        flat = x.components.flatten(-spatial)
        picked = flat.gather(-1, index.flatten(-spatial).expand(*flat.shape[:-1], -1)).unflatten(-1, index.shape[-spatial:])
        return x.same(picked), index

    def window(x: Q, *args: Any, **kwargs: Any) -> Any:
        """The longest quaternion of each window."""
        wanted = kwargs.pop("return_indices", False)
        out = choose(x, pool(norms(x), *args, **kwargs))
        return out if wanted else out[0]

    def window_with_indices(x: Q, *args: Any, **kwargs: Any) -> Any:
        """The longest quaternion of each window, and its place."""
        kwargs.pop("return_indices", None)
        return choose(x, pool(norms(x), *args, **kwargs))

    def adapt(x: Q, output_size: Any, return_indices: bool = False) -> Any:
        """The longest quaternion of each of so many windows."""
        size = output_size if spatial == 1 or not isinstance(output_size, int) else (output_size,) * spatial
        if not isinstance(size, int):
            size = tuple(n if n is not None else x.user_shape[d - spatial] for d, n in enumerate(size))
        out = choose(x, adaptive(norms(x), size))
        return out if return_indices else out[0]

    rule(f"max_pool{spatial}d", f"_max_pool{spatial}d")(window)
    rule(f"max_pool{spatial}d_with_indices")(window_with_indices)
    rule(f"adaptive_max_pool{spatial}d", f"_adaptive_max_pool{spatial}d")(adapt)
    rule(f"adaptive_max_pool{spatial}d_with_indices")(lambda x, size, *_, **__: adapt(x, size, True))


for _spatial in (1, 2, 3):
    _windows(_spatial)
