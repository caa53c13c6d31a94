"""Pooling (Deng et al., section 3.3): the mean, or the vector that goes farthest along its learned direction.

    mean    v̄ = 1/N Σ_n v_n
    max     v_n̂ with n̂ = argmax_n ⟨v_n, k_n⟩, k = W·v, in each channel

The mean is what the published classification networks use; the option ``pooling`` chooses. Minima, top-k and sorting go by
norms, as in the parent set.
"""

from __future__ import annotations

from torch import Tensor

from reqnn.rules.options import channel_axis, choice, uniform
from reqnn.rules.paper.convolution import pointwise
from reqnn.rules.pooling import Pick, Pooling, register_pooling
from reqnn.rules.vector_neurons.base import vector_neurons, vectors_of
from reqnn.tensor import QuaternionTensor as Q


def scores(x: Q) -> Tensor:
    """⟨v, W·v⟩ of each element, with the W of this call."""
    vectors = vectors_of(x)
    learned = x.context.learned("pool")
    axis: int = learned.constant("axis", lambda: channel_axis(x))
    channels = vectors.shape[axis + 1]
    direction = learned.parameter("direction", (channels, channels), vectors, uniform)
    return (vectors * pointwise(vectors, direction, axis)).sum(0)


def combine(x: Q, pooled: tuple[int, ...], winner: Pick, mean: Pick) -> Tensor:
    """The mean of the vectors, or the winner."""
    averages = choice(x, "pooling", "mean", "max") == "mean"
    return (mean if averages else winner)(vectors_of(x))


register_pooling(vector_neurons, Pooling(scores, combine))
