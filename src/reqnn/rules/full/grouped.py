"""This set on gathered storage: every linear map before the gather, the rest in one loop (`reqnn.nn.full_grouped`)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.kernels.full_edges import Measured
from reqnn.kernels.rows import from_rows
from reqnn.nn.full_grouped import FullGrouped, Weights, first_layer, separates
from reqnn.nn.full_parts import join
from reqnn.nn.predicted_vectors import predicts_vectors
from reqnn.rules.full.base import EPS, full, kinds, small, unit_size
from reqnn.rules.grouping import register_linear, register_max
from reqnn.rules.options import choice, uniform, whole_number
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, form_of, wrap
from reqnn.tensor.running import owner_of_call


def mapped(x: Any, weight: Any, bias: Tensor | None, channels: int) -> Any:
    """The rule of linear maps, on rows of points or of edges."""
    kept = form_of(x, (Gathered, FullGrouped))
    if kept is None or kept.axis != channels or x.rank == 2:
        return NotImplemented
    refuse_elsewhere(x, channels)
    flat = x.context.fit(weight, 1, x.layout_on(channels))
    running = owner_of_call()
    if flat.shape[1] != x.stored_shape[channels + 1] or flat.dtype != x.dtype:
        return NotImplemented
    if running is None or predicts_vectors(running.module):
        return NotImplemented
    axis = kept.group_axis() if isinstance(kept, Gathered) else None
    if isinstance(kept, Gathered) and (axis is None or not separates(kept, axis)):
        return NotImplemented
    weights = _weights(x, flat, bias, kept.raw)
    out = first_layer(kept, weights, axis) if isinstance(kept, Gathered) and axis is not None else kept.linear(weights)
    return wrap(out, x, channels)


def _weights(x: Q, weight: Tensor, bias: Tensor | None, like: Tensor) -> Weights:
    """What the layer has learned for these features."""
    learned, pure, count = x.context.learned("full"), x.stored_shape[0] == 3, whole_number(x, "products")
    vectors = weight if pure else learned.parameter("vectors", tuple(weight.shape), like, uniform)
    maps = learned.parameter("maps", (kinds(x) * count, *weight.shape[1:]), like, uniform)
    invariants = learned.parameter("invariants", (weight.shape[0], kinds(x) * count), like, small)
    real = None if pure else weight.flatten(1)
    return Weights(real, vectors.flatten(1), maps.flatten(1), invariants, bias, count)


register_linear(full, mapped)


@full.gathered("batch_norm")
def batch_norm(
    x: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *unused: Any,
) -> Any:
    """u = scale·s + shift, put off; the statistics are measured now."""
    kept = form_of(x, FullGrouped)
    if kept is None or kept.axis != 1 or kept.scale is not None or kept.phi is not None:
        return NotImplemented
    measured = None
    if training or running_mean is None or running_var is None:
        count = kept.groups.count
        mean, square = kept.moments() / count
        variance = (square - mean.square()).clamp(min=0)
        measured = None if mean.requires_grad else Measured(mean, variance + eps, count)
        if training and running_mean is not None and running_var is not None:
            with torch.no_grad():
                running_mean.lerp_(mean.to(running_mean.dtype), momentum)
                running_var.lerp_((variance * (count / max(count - 1, 1))).to(running_var.dtype), momentum)
    else:
        mean, variance = running_mean.double(), running_var.double()
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    unit = EPS if choice(x, "unit", "norm", "pool", "both") in ("norm", "both") else 0.0
    return wrap(kept.normed(scale.to(kept.like.dtype), shift.to(kept.like.dtype), unit, measured), x, 1)


def _activation(name: str) -> Any:
    function = getattr(F, name)

    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        kept = form_of(x, FullGrouped)
        if kept is None or kept.phi is not None:
            return NotImplemented
        slope = None
        if name == "relu":
            slope = 0.0
        elif name == "leaky_relu":
            slope = float(args[0] if args else kwargs.get("negative_slope", 0.01))
        return wrap(kept.activated(lambda real: function(real, *args, **kwargs), slope), x, kept.axis)

    return apply


RISING = ("relu", "leaky_relu", "elu", "selu", "celu", "softplus", "relu6")
"""Activations that never fall: a maximum may come before them."""

for _name in RISING:
    full.gathered(_name)(_activation(_name))


def pooled(x: Any, dim: int, keepdim: bool) -> Any:
    """The largest real part along the neighbours, the mean of the imaginary ones, and the index."""
    kept = form_of(x, FullGrouped)
    (at,) = x.dims(dim)
    if kept is None or at == kept.axis or choice(x, "pooling", "mean", "winner") != "mean":
        return NotImplemented
    along = at - (at > kept.axis)
    if not kept.groups_along(along) or kept.activation.slope < 0:
        return NotImplemented
    largest, imaginary, index = kept.pooled()
    rest = [*kept.places[:along], *kept.places[along + 1 :]]
    axis = kept.axis - (at < kept.axis)
    real = largest.unflatten(0, rest).movedim(-1, axis)
    vectors = unit_size(x, from_rows(imaginary.unflatten(0, rest), axis), axis, "pool")
    index = index.unflatten(0, rest).movedim(-1, axis)
    if keepdim:
        real, vectors, index, axis = real.unsqueeze(at), vectors.unsqueeze(at + 1), index.unsqueeze(at), kept.axis
    if owner_of_call() is not None:
        x.context.learned("pool")  # as the rule on ordinary tensors counts it
    return join(x.like(vectors.detach()), real, vectors, axis), index


register_max(full, pooled)
