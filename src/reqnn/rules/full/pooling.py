"""Max-pooling: the order is that of the real parts.

    s′ = max_n s_n,    v′ = v_n̂ of the winner, or the mean 1/N Σ_n v_n

The mean keeps what every neighbour says about orientation, each opened or closed by its own real part before; the option
``pooling`` chooses. Pure quaternions have no real part to be ordered by: theirs is the order of the paper, by norms.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn.nn.full_parts import parts
from reqnn.rules.full.base import full, unit_size
from reqnn.rules.options import channel_axis, choice
from reqnn.rules.pooling import Pick, Pooling, register_pooling
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.running import owner_of_call


def order(x: Q) -> Tensor:
    """s, or ‖v‖² where there is no s."""
    real = parts(x)[0]
    return x.squared_norm() if real is None else real


def _channels(x: Q) -> int:
    """The axis of the channels, as the dry run has found it; a tensor outside of networks tells by itself."""
    if owner_of_call() is None:
        return channel_axis(x)
    axis: int = x.context.learned("pool").constant("axis", lambda: channel_axis(x))
    return axis


def combine(x: Q, pooled: tuple[int, ...], winner: Pick, mean: Pick) -> Tensor:
    """Both parts; the imaginary one is brought to unit size, unless it is the channels that were pooled."""
    real, imaginary = parts(x)
    if real is None:
        return winner(imaginary)
    averages = choice(x, "pooling", "mean", "winner") == "mean"
    imaginary = (mean if averages else winner)(imaginary)
    axis = _channels(x)
    return torch.cat([winner(real[None]), imaginary if axis in pooled else unit_size(x, imaginary, axis, "pool")])


register_pooling(full, Pooling(order, combine))
