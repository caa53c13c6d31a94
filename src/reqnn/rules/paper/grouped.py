"""The paper's rules on gathered storage: linear maps before the gather, pooling before batch-norm and ReLU.

See `reqnn.tensor.gathered` and `reqnn.nn.grouped`. Each function has the arguments of its rule and returns NotImplemented if
the rule has to run on an ordinary tensor.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.nn.grouped import Grouped, grouped_features, pooled
from reqnn.nn.on_groups import OnGroups
from reqnn.rules.algebra.base import algebra
from reqnn.rules.grouping import register_linear, register_max
from reqnn.rules.paper.base import paper
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, Weighted, form_of, wrap


def mapped(x: Any, weight: Any, bias: Tensor | None, channels: int) -> Any:
    """W·f, on rows, or put off behind a batch-norm and ReLU."""
    kept = form_of(x, (Gathered, Grouped))
    if kept is None or kept.axis != channels or kept.raw.shape[0] != 3 or x.rank == 2:
        return NotImplemented
    refuse_elsewhere(x, channels)
    weight = x.context.fit(weight, 1, x.layout_on(channels)).flatten(1)
    if weight.shape[1] != x.stored_shape[channels + 1] or weight.dtype != x.dtype:
        return NotImplemented
    x.context.drop_bias(bias)
    return wrap(kept.linear(weight), x, channels)


register_linear(paper, mapped)


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


register_max(paper, longest)


@algebra.gathered("matmul")
def matmul(a: Any, b: Any) -> Any:
    """(…, C, K) features of neighbours times (…, K, W) real weights: Σ_j f_j ⊗ w_j (PointConv)."""
    kept = form_of(a, (OnGroups, Weighted))
    if kept is None or isinstance(b, Q) or not isinstance(b, Tensor) or a.rank < 3 or b.dim() != a.rank:
        return NotImplemented
    if isinstance(kept, Weighted):
        kept, b = kept.form, b * kept.weights.unsqueeze(-1)
    if not isinstance(kept, OnGroups):
        return NotImplemented
    if kept.axis != a.rank - 2 or kept.groups.padded or b.shape[:-1] != (*kept.place.shape[:-1], kept.groups.size):
        return NotImplemented
    if not kept.groups_along(len(kept.place.shape) - 1) or b.dtype != kept.raw.dtype:
        return NotImplemented
    out = kept.outer_sum(b.reshape(kept.groups.centres, kept.groups.size, -1))  # (P, parts, C, W)
    return a.like(out.unflatten(0, kept.place.shape[:-1]).movedim(-3, 0))
