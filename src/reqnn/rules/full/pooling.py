"""Max-pooling: the order is that of the real parts.

    s′ = max_n s_n,    v′ = v_n̂ of the winner, or the mean 1/N Σ_n v_n

The mean keeps what every neighbour says about orientation, each opened or closed by its own real part before; the option
``pooling`` chooses. Pure quaternions have no order of their own here: theirs is that of the paper, by norms.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import align, broadcast_axis, refuse_over_vectors, same_parts
from reqnn.rules.algebra.reduction import reduced
from reqnn.rules.full.base import channel_axis, choice, full, join, unit_size
from reqnn.tensor import QuaternionTensor as Q


def rule(*names: str) -> Any:
    """A rule of this row."""
    return full.rule(*names, row="Max-pooling")


def _averages(x: Q) -> bool:
    return choice(x, "pooling", "mean", "winner") == "mean"


def _as_in_the_paper(name: str) -> Any:
    assert full.parent is not None
    found: Any = full.parent.find(name)
    return found.apply


def _united(x: Q, imaginary: Tensor, *pooled: int) -> Tensor:
    """Brought to unit size at each place, where the channels are not what was pooled."""
    axis = channel_axis(x)
    return imaginary if axis in pooled else unit_size(x, imaginary, axis, "pool")


def _over(x: Q, dim: int, keepdim: bool) -> tuple[Q, Tensor]:
    """The maximum along one axis, and where it is."""
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], "max")
    if x.components.shape[0] == 3:
        pair = _as_in_the_paper("max")(x, at, keepdim)
        return pair[0], pair[1]
    real, index = x.components[0].max(at, keepdim=True)
    if _averages(x):
        imaginary = x.imaginary().mean(at + 1, keepdim=True)
    else:
        imaginary = x.imaginary().gather(at + 1, index.expand(3, *index.shape))
    parts = torch.cat([real[None], _united(x, imaginary, at)])
    values = reduced(x, parts if keepdim else parts.squeeze(at + 1), [at], keepdim)
    return values, index if keepdim else index.squeeze(at)


@rule("max")
def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """The maximum along an axis, with its index; of two tensors, element by element; of everything, one quaternion."""
    other = named.get("other", named.get("axis", dim))
    if isinstance(other, Tensor) or not isinstance(x, Q):
        return maximum(x, other)
    if other is None:
        flat: Any = x.flatten()
        return _over(flat, 0, False)[0]
    return torch.return_types.max(_over(x, other, keepdim))


@rule("amax")
def amax(x: Q, dim: Any = (), keepdim: bool = False) -> Q:
    """The maximum over axes, the last one first."""
    for d in sorted(x.dims(dim) if dim != () else range(x.rank), reverse=True):
        x = _over(x, d, keepdim)[0]
    return x


@rule("maximum", "fmax")
def maximum(a: Any, b: Any) -> Q:
    """The maximum of two tensors, element by element."""
    if not (isinstance(a, Q) and isinstance(b, Q)):
        raise NoRuleError("the maximum of quaternion features and real numbers")
    a, b = same_parts(a, b)
    if a.components.shape[0] == 3:
        out: Q = _as_in_the_paper("maximum")(a, b)
        return out
    axis, layout = broadcast_axis(a, b)
    rank = max(a.rank, b.rank)
    left, right = torch.broadcast_tensors(align(a.components, rank), align(b.components, rank))
    if _averages(a):
        mean = (left[1:] + right[1:]) / 2
        return a.like(torch.cat([torch.maximum(left[:1], right[:1]), mean]), axis, layout)
    return a.like(torch.where(left[0] >= right[0], left, right), axis, layout)


def _windows(spatial: int) -> None:
    pool = {1: F.max_pool1d_with_indices, 2: F.max_pool2d_with_indices, 3: F.max_pool3d_with_indices}[spatial]
    largest = {1: torch.adaptive_max_pool1d, 2: torch._C._nn.adaptive_max_pool2d, 3: torch._C._nn.adaptive_max_pool3d}[spatial]
    average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[spatial]
    adaptive = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[spatial]

    def means(x: Q, function: Any, *args: Any) -> Tensor:
        imaginary = x.imaginary()
        out: Tensor = function(imaginary.flatten(0, -spatial - 2), *args)
        return out.unflatten(0, imaginary.shape[: -spatial - 1])

    def chosen(x: Q, index: Tensor) -> Tensor:
        flat = x.imaginary().flatten(-spatial)
        return flat.gather(-1, index.flatten(-spatial).expand(*flat.shape[:-1], -1)).unflatten(-1, index.shape[-spatial:])

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
        if x.components.shape[0] == 3:
            given = (kernel_size, stride, padding, dilation, ceil_mode)
            return _as_in_the_paper(f"max_pool{spatial}d")(x, *given, return_indices=return_indices)
        real, index = pool(x.components[0], kernel_size, stride, padding, dilation, ceil_mode)
        dilated = any(d != 1 for d in (dilation if isinstance(dilation, (tuple, list)) else (dilation,)))
        if _averages(x) and dilated:
            raise NoRuleError("a mean over a dilated window; the option pooling='winner' of the rule set has one")
        averaged = _averages(x)
        imaginary = means(x, average, kernel_size, stride or None, padding, ceil_mode, False) if averaged else chosen(x, index)
        out = join(x, real, _united(x, imaginary, *range(x.rank - spatial, x.rank)))
        return (out, index) if return_indices else out

    def adapt(x: Q, output_size: Any, return_indices: bool = False) -> Any:
        """Pool each of so many windows."""
        refuse_over_vectors(x, range(x.rank - spatial, x.rank), "pooling")
        if x.components.shape[0] == 3:
            return _as_in_the_paper(f"adaptive_max_pool{spatial}d")(x, output_size, return_indices)
        size = output_size if spatial == 1 or not isinstance(output_size, int) else (output_size,) * spatial
        if not isinstance(size, int):
            size = tuple(n if n is not None else x.user_shape[d - spatial] for d, n in enumerate(size))
        real, index = largest(x.components[0], size)
        imaginary = means(x, adaptive, size) if _averages(x) else chosen(x, index)
        out = join(x, real, _united(x, imaginary, *range(x.rank - spatial, x.rank)))
        return (out, index) if return_indices else out

    rule(f"max_pool{spatial}d", f"_max_pool{spatial}d")(window)
    rule(f"max_pool{spatial}d_with_indices")(lambda x, *args, **kwargs: window(x, *args, **{**kwargs, "return_indices": True}))
    rule(f"adaptive_max_pool{spatial}d", f"_adaptive_max_pool{spatial}d")(adapt)
    rule(f"adaptive_max_pool{spatial}d_with_indices")(lambda x, size, *_, **__: adapt(x, size, True))


for _spatial in (1, 2, 3):
    _windows(_spatial)
