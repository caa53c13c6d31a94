"""Extension: layer, group and instance norm as the batch-norm rule has it: divide by the root mean squared norm.

    f / √(E‖f‖² + ε) · γ

with E over the elements that the original averages over. The gain γ is real and may stay; the shift β is a bias and goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.paper.base import paper
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.rules.registry import arguments
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay


def _gain(x: Q, components: Tensor, weight: Tensor | None, bias: Tensor | None, dim: int) -> Q:
    """Multiply by the gain along axis `dim`."""
    x.context.drop_bias(bias)
    if weight is None:
        return x.same(components)
    weight = x.context.fit(weight, 0, x.layout_on(dim))
    return x.same(components * weight.reshape(-1, *[1] * (x.rank - 1 - dim % x.rank)))


@paper.rule("layer_norm", row="Layer normalization", extension=True)
def layer_norm(
    x: Q, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float | None = 1e-5
) -> Q:
    """Mean squared norm over the last axes of each sample."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if list(x.user_shape[-len(shape) :]) != shape and list(x.components.shape[-len(shape) :]) != shape:
        raise RuntimeError(f"normalized_shape={shape} does not match the input of shape {list(x.user_shape)}")
    if weight is not None and len(shape) > 1 and x.axis is not None and lay.has_vectors(x.vectors):
        raise NoRuleError("LayerNorm with a gain over several axes, one of them coordinates")
    dims = list(range(-len(shape), 0))
    power = x.squared_norm().mean(dims, keepdim=True)
    normed = x.components * (power + (eps or 1e-6)).rsqrt()
    if weight is None or len(shape) == 1:
        return _gain(x, normed, weight, bias, x.rank - 1)
    x.context.drop_bias(bias)
    return x.same(normed * weight)


@paper.rule("rms_norm", row="Layer normalization", extension=True)
def rms_norm(x: Q, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Q:
    """The same without a shift to lose."""
    return layer_norm(x, normalized_shape, weight, None, eps)


@paper.rule("group_norm", row="Group normalization", extension=True)
def group_norm(x: Q, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Q:
    """Mean squared norm over groups of channels and all places of each sample."""
    refuse_elsewhere(x, 1)
    channels = x.components.shape[2]
    if channels % num_groups:
        raise NoRuleError(f"{num_groups} groups of {channels} quaternion channels: the number of channels must be a multiple")
    grouped = x.components.unflatten(2, (num_groups, -1))
    power = grouped.square().sum(0).flatten(2).mean(2)
    scale = (power + eps).rsqrt().repeat_interleave(channels // num_groups, 1)
    return _gain(x, x.components * scale.reshape(*scale.shape, *[1] * (x.rank - 2)), weight, bias, 1)


@paper.rule("instance_norm", row="Instance normalization", extension=True)
def instance_norm(x: Q, *args: Any, **kwargs: Any) -> Q:
    """Mean squared norm over all places of each sample and channel."""
    call = arguments(F.instance_norm, (x, *args), kwargs)
    if call.running_mean is not None or call.running_var is not None or not call.use_input_stats:  # of no single instance
        raise NoRuleError("instance_norm with running statistics: build it with track_running_stats=False")
    return group_norm(x, x.stored_shape[2], call.weight, call.bias, call.eps)
