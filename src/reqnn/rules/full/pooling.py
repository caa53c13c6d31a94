"""Max-pooling: the order is that of the real parts.

    s′ = max_n s_n,    v′ = v_n̂ of the winner, or the mean 1/N Σ_n v_n

The mean keeps what every neighbour says about orientation, each opened or closed by its own real part before; the option
``pooling`` chooses. Pure quaternions have no real part to be ordered by: theirs is the order of the paper, by norms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import tied
from reqnn.nn.full_parts import Parts, join, parts
from reqnn.rules.full.base import full, loops_serve, unit_size
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


_ADAPTIVE = {kind: [f"adaptive_{kind}_pool{spatial}d" for spatial in (1, 2, 3)] for kind in ("max", "avg")}
_GENERAL: dict[str, Any] = {name: full.find(name) for names in _ADAPTIVE.values() for name in names}


def over_the_cloud(name: str, x: Q, output_size: Any, *indices: Any, **named: Any) -> Any:
    """``adaptive_max_pool`` and ``adaptive_avg_pool`` to size 1: the parts are not joined, and share the mean of v."""
    name = name.removeprefix("_")
    general, largest, spatial = _GENERAL[name], "max" in name, int(name[-2])
    kept, sizes = x.still_deferred, output_size if isinstance(output_size, (tuple, list)) else (output_size,)
    plain = not any(indices) and not any(named.values()) and x.axis is None
    whole = plain and x.rank == spatial + 2 and all(size == 1 for size in sizes)
    if not whole or not isinstance(kept, Parts) or kept.axis != 1 or not loops_serve(x, kept.imaginary):
        return general.apply(x, output_size, *indices, **named)
    if largest and (choice(x, "pooling", "mean", "winner") != "mean" or _channels(x) != 1):
        return general.apply(x, output_size)
    flat, vectors = kept.real.flatten(2), kept.mean_from(2)
    real = tied.largest(flat, 2)[0] if largest else flat.mean(-1)
    vectors = unit_size(x, vectors, 1, "pool") if largest else vectors
    return join(x.like(vectors.detach()), real.reshape(vectors.shape[1:]), vectors, 1)


for _kind, _row in (("max", "Max-pooling"), ("avg", "algebra")):
    full.each(*_ADAPTIVE[_kind], *(f"_{name}" for name in _ADAPTIVE[_kind]), row=_row)(over_the_cloud)
