"""Linear maps and convolutions.

    s′ = W ⊗ s + b + U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩)   W, b: weights and bias of the original; p, q, r = P ⊗ v
    v′ = V ⊗ v

U, P and V are learned beside W: the real part runs the ordinary network. Pure quaternions, such as coordinates, have no s; W
then serves as V. A layer that predicts coordinates gives pure quaternions, W ⊗ v.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.kernels.rows import from_rows, to_rows
from reqnn.nn.full_parts import join, parts
from reqnn.nn.predicted_vectors import predicts_vectors
from reqnn.nn.quaternion_to_real import to_real
from reqnn.rules.full.base import full, invariants, kinds, loops_serve, small
from reqnn.rules.options import uniform, whole_number
from reqnn.rules.paper.convolution import CONVOLUTIONS, Layer, convolution_of, pointwise, refuse_elsewhere, stands_at_head
from reqnn.tensor import QuaternionTensor as Q


def mixed(x: Q, weight: Tensor, bias: Tensor | None, axis: int, layer: Layer, like: Callable[[int], tuple[int, ...]]) -> Q:
    """The rule, for a layer that mixes logical axis `axis`.

    Args:
        layer: the bias-free map with a weight.
        like: a number of output channels → the shape of a weight with so many, that of a layer without groups.
    """
    learned = x.context.learned("full")
    real, imaginary = parts(x)
    if predicts_vectors(learned.owner):  # coordinates are pure
        x.context.drop_bias(bias)
        out = x.like(layer(imaginary, weight))
        out.channel_axis = axis
        return out
    if loops_serve(x, imaginary):
        imaginary = from_rows(to_rows(imaginary, axis), axis)  # one copy for both products
    rotating = weight if real is None else learned.parameter("vectors", tuple(weight.shape), imaginary, uniform)
    vectors = layer(imaginary, rotating)
    channels = vectors.shape[axis + 1]
    count = whole_number(x, "products")
    maps = layer(imaginary, learned.parameter("maps", like(kinds(x) * count), imaginary, uniform), 1)
    found = invariants(x, maps, count, axis)
    weights = learned.parameter("invariants", (channels, found.shape[axis]), imaginary, small)
    scalars = pointwise(found[None], weights, axis)[0]
    if real is not None:
        scalars = scalars + layer(real[None], weight)[0]
    if bias is not None:
        scalars = scalars + bias.reshape(-1, *[1] * (scalars.dim() - 1 - axis))
    return join(x, scalars, vectors, axis)


@full.rule("linear", row="Convolution")
def linear(x: Q, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Along the last axis, or, at the first Linear on (B, C) features, Quaternion2Real and the ordinary Linear."""
    if not isinstance(x, Q) or isinstance(weight, Q):
        raise NoRuleError("quaternion features are used as the weight of a linear map")
    if stands_at_head(x):
        real = to_real(x)
        return F.linear(real, x.context.widen(weight, real.shape[-1]), bias)
    axis = x.rank - 1
    refuse_elsewhere(x, axis)
    weight = x.context.fit(weight, 1, x.layout_on(axis))
    return mixed(x, weight, bias, axis, lambda parts, w, groups=1: pointwise(parts, w, axis), lambda n: (n, *weight.shape[1:]))


@full.each(*CONVOLUTIONS, row="Convolution")
def convolution(name: str, x: Q, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Q:
    """The rule for convolutions."""
    weight, layer, axis = convolution_of(x, weight, name, args, kwargs)

    def like(channels: int) -> tuple[int, ...]:
        pair = (channels, x.stored_shape[axis + 1])
        return (*(pair[::-1] if "transpose" in name else pair), *weight.shape[2:])

    return mixed(x, weight, bias, axis, layer, like)
