"""This set on gathered storage: linear maps and the mean over neighbours (`reqnn.nn.vector_grouped`).

Batch-norm and ReLU choose it themselves. Each function has the arguments of its rule and returns NotImplemented where the rule
has to run on an ordinary tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.nn.vector_grouped import Product, VectorGrouped
from reqnn.rules.algebra.gathered_sums import mean
from reqnn.rules.grouping import register_linear, register_max
from reqnn.rules.options import choice
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.rules.vector_neurons.base import vector_neurons
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.gathered import Gathered, form_of, wrap


def mapped(x: Any, weight: Any, bias: Tensor | None, channels: int) -> Any:
    """W·f, before the gather or row by row behind a batch-norm and ReLU."""
    kept = form_of(x, (Gathered, VectorGrouped))
    if kept is None or kept.axis != channels or kept.raw.shape[0] != 3 or x.rank == 2:
        return NotImplemented
    refuse_elsewhere(x, channels)
    weight = x.context.fit(weight, 1, x.layout_on(channels)).flatten(1)
    if weight.shape[1] != kept.width or weight.dtype != x.dtype:
        return NotImplemented
    x.context.drop_bias(bias)
    return wrap(Product.of(kept, weight) if isinstance(kept, Gathered) else kept.linear(weight), x, channels)


register_linear(vector_neurons, mapped)


def pooled(x: Any, dim: int, keepdim: bool) -> Any:
    """The mean along the neighbours, if that is what pooling means; it is none of them, and its index is −1."""
    if not isinstance(x, Q) or x.stored_shape[0] != 3 or choice(x, "pooling", "mean", "max") != "mean":
        return NotImplemented
    found = mean(x, dim, keepdim)
    if found is NotImplemented:
        return found
    return found, torch.full((), -1, device=found.device).expand(found.stored_shape[1:])


register_max(vector_neurons, pooled)
