"""The leaky ReLU along a learned direction (Deng et al., section 3.2, equations 4 to 6).

    k = U·v,    v′ = α·v + (1 − α)·(v  if ⟨v, k⟩ ≥ 0,  else  v − ⟨v, k⟩/‖k‖² · k)

What points against its direction k loses that part. U is learned, so k rotates with v. Behind a batch-norm k is the linear map
of what the batch-norm was given: as in the publication, direction and feature are both linear in the input of the layer.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.nn.vector_grouped import vector_groups
from reqnn.rules.options import channel_axis, choice, uniform
from reqnn.rules.paper.convolution import pointwise
from reqnn.rules.vector_neurons.base import vector_neurons, vectors_of
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import wrap

EPS = 1e-4  # of ‖k‖²: a direction that vanishes takes nothing away, and rounding in it is not blown up


def cut(v: Tensor, k: Tensor, slope: float | Tensor) -> Tensor:
    """v − (1 − α)·min{⟨v, k⟩, 0}/‖k‖² · k, the two cases in one line.

    Shapes: v (3, *), k (3, *) of the same shape or 1 on the channel axis → (3, *)
    """
    against = (v * k).sum(0).clamp(max=0)
    return v - ((1 - slope) * against / (k.square().sum(0) + EPS)) * k


def directional_relu(x: Q, slope: float | Tensor) -> Q:
    """The rule, with the direction of this call; on gathered features it is put off (`reqnn.nn.vector_grouped`)."""
    learned = x.context.learned("relu")
    axis: int = learned.constant("axis", lambda: channel_axis(x))
    kept = vector_groups(x, axis) if x.context.gathers and not isinstance(slope, Tensor) else None
    vectors = vectors_of(x) if kept is None else kept.raw
    channels = vectors.shape[axis + 1]
    width = channels if choice(x, "direction", "channel", "shared") == "channel" else 1
    direction = learned.parameter("direction", (width, channels), vectors, uniform)
    if kept is not None and not isinstance(slope, Tensor) and direction.dtype == x.dtype:
        linear = kept.pending.yk is None and (kept.pending.scale is None or x.unscaled is not None)
        return wrap((kept if linear else kept.settled()).activated(direction, slope, EPS), x, axis, x.vectors)
    if isinstance(slope, Tensor) and slope.numel() > 1:
        slope = slope.reshape(-1, *[1] * (x.rank - 1 - axis))
    out = x.same(cut(x.components, pointwise(_unscaled(x), direction, axis), slope))
    out.channel_axis = axis
    return out


def _unscaled(x: Q) -> Tensor:
    """The components before the batch-norm, if that was the last operation."""
    if x.unscaled is None:
        return x.components
    return x.unscaled.components if isinstance(x.unscaled, Q) else x.unscaled


def slope_of(x: Q, original: float) -> float:
    """α: the option of the set, or that of the original."""
    given = x.context.rules.option("slope")
    return original if given is None else float(given)


@vector_neurons.rule("relu", row="ReLU")
def relu(x: Q) -> Q:
    """α = 0."""
    return directional_relu(x, slope_of(x, 0.0))


@vector_neurons.rule("leaky_relu", row="ReLU")
def leaky_relu(x: Q, negative_slope: float = 0.01) -> Q:
    """α is the slope of the original."""
    return directional_relu(x, slope_of(x, negative_slope))


@vector_neurons.rule("prelu", row="ReLU", extension=True)
def prelu(x: Q, weight: Tensor) -> Q:
    """α is learned, one or one a channel, as in the original."""
    return directional_relu(x, weight)


@vector_neurons.rule("rrelu", row="ReLU", extension=True)
def rrelu(x: Q, lower: float = 1 / 8, upper: float = 1 / 3, *args: Any, **named: Any) -> Q:
    """α is the mean of the random slopes."""
    return directional_relu(x, slope_of(x, (lower + upper) / 2))


@vector_neurons.rule(
    "elu", "gelu", "silu", "selu", "celu", "mish", "hardswish", "softplus", "relu6", row="ReLU", extension=True
)
def smooth_relu(x: Q, *args: Any, **named: Any) -> Q:
    """The same rule in place of the smooth relatives."""
    return relu(x)
