"""The paper's rules on gathered storage: linear maps before the gather, pooling before batch-norm and ReLU.

See `reqnn.tensor.gathered` and `reqnn.nn.grouped`. Each function has the arguments of its rule and returns NotImplemented if
the rule has to run on an ordinary tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.nn.grouped import Grouped, grouped_features, pooled
from reqnn.rules.algebra.base import algebra
from reqnn.rules.paper.base import paper
from reqnn.rules.paper.convolution import is_pointwise, refuse_elsewhere
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, Weighted, form_of, wrap


def mapped(x: Any, weight: Any, bias: Tensor | None, channels: int) -> Any:
    """W·f, on rows, or put off behind a batch-norm and ReLU."""
    kept = form_of(x, (Gathered, Grouped))
    if kept is None or kept.axis != channels or kept.raw.shape[0] != 3 or x.rank == 2 or isinstance(weight, Q):
        return NotImplemented
    refuse_elsewhere(x, channels)
    weight = x.context.fit(weight, 1, x.layout_on(channels)).flatten(1)
    if weight.shape[1] != x.stored_shape[channels + 1] or weight.dtype != x.dtype:
        return NotImplemented
    x.context.drop_bias(bias)
    return wrap(kept.linear(weight), x, channels)


@paper.gathered("linear")
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
    paper.gathered(f"conv{_spatial}d")(_convolution(_spatial))


@paper.gathered("relu", "leaky_relu", "elu", "gelu", "silu", "selu", "celu", "mish", "hardswish", "softplus", "relu6")
def relu(x: Any, *args: Any, **named: Any) -> Any:
    """‖f‖ / max{‖f‖, c}·f, put off; a c that depends on the features is computed at once."""
    c = x.context.rules.option("c")
    kept = grouped_features(x) if c != "mean" else None
    if kept is None or kept.c > 0 or float(c) <= 0:
        return NotImplemented
    return wrap(kept.relu(float(c)), x, kept.axis)


def longest(x: Any, dim: int, keepdim: bool) -> Any:
    """The longest along the neighbours and its index."""
    (at,) = x.dims(dim)
    kept, form = form_of(x, Grouped), form_of(x)
    if form is not None and x.axis is None and form.raw.shape[0] == 3 and at != form.axis:
        kept = grouped_features(x)
    if kept is None or at == kept.axis or not kept.groups_along(at - (at > kept.axis)):
        return NotImplemented
    return pooled(x, kept, at, keepdim)


@paper.gathered("max")
def maximum_over(x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    """``x.max(dim)`` over neighbours."""
    if not isinstance(x, Q) or not isinstance(dim, int) or named:
        return NotImplemented
    found = longest(x, dim, keepdim)
    return found if found is NotImplemented else torch.return_types.max(found)


@paper.gathered("amax")
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """``x.amax(dim)`` over neighbours."""
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        dim = dim[0]
    found = longest(x, dim, keepdim) if isinstance(dim, int) else NotImplemented
    return found if found is NotImplemented else found[0]


@paper.gathered("adaptive_max_pool1d")
def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """One window is all neighbours."""
    one = output_size in (1, (1,), [1]) and not return_indices
    found = longest(x, -1, True) if one else NotImplemented
    return found if found is NotImplemented else found[0]


@paper.gathered("max_pool2d")
def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *args: Any, **named: Any) -> Any:
    """A window of one place by all neighbours."""
    window = tuple(kernel_size) if isinstance(kernel_size, (tuple, list)) else (kernel_size, kernel_size)
    plain = not args and not any(named.values()) and padding in (0, (0, 0), [0, 0]) and x.rank == 4
    for dim in (2, 3) if plain else ():
        if window[dim - 2] == x.user_shape[dim] and window[3 - dim] == 1 and stride in (None, kernel_size, 1, (1, 1), [1, 1]):
            found = longest(x, dim, True)
            return found if found is NotImplemented else found[0]
    return NotImplemented


@algebra.gathered("matmul")
def matmul(a: Any, b: Any) -> Any:
    """(…, C, K) features of neighbours times (…, K, W) real weights: Σ_j f_j ⊗ w_j (PointConv)."""
    kept = form_of(a, (Grouped, Weighted))
    if kept is None or isinstance(b, Q) or not isinstance(b, Tensor) or a.rank < 3 or b.dim() != a.rank:
        return NotImplemented
    if isinstance(kept, Weighted):
        kept, b = kept.form, b * kept.weights.unsqueeze(-1)
    if not isinstance(kept, Grouped):
        return NotImplemented
    if kept.axis != a.rank - 2 or kept.groups.padded or b.shape[:-1] != (*kept.place.shape[:-1], kept.groups.size):
        return NotImplemented
    if not kept.groups_along(len(kept.place.shape) - 1) or b.dtype != kept.raw.dtype:
        return NotImplemented
    out = kept.outer_sum(b.reshape(kept.groups.centres, kept.groups.size, -1))  # (P, 3, C, W)
    return a.like(out.unflatten(0, kept.place.shape[:-1]).movedim(-3, 0))
