"""Table 1, "Max-pooling": maxPool(f) = f_v̂ with v̂ = argmax_v ‖f_v‖ (paper, section 3.3, equation 7; appendix C.4).

Over an axis, over windows, adaptive; element-wise, channel by channel, as in appendix D. The gradient goes to the winner.
Minima, top-k and sorting, by norms as well, are extensions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.nn.deferred import Deferred
from reqnn.rules.algebra.base import refuse_over_vectors
from reqnn.rules.paper.base import paper
from reqnn.rules.pooling import Pooling, register_order, register_pooling
from reqnn.tensor import QuaternionTensor as Q


def _before_scaling(x: Q, dim: int, keepdim: bool) -> tuple[Q, Tensor] | None:
    """Scaling and ReLU keep the order of norms: they may come after."""
    if not isinstance(x.deferred, Deferred) or x.axis is not None or dim < 2:
        return None
    deferred, index = x.deferred.longest(dim, keepdim)
    return x.defer(deferred), index


register_pooling(paper, Pooling(Q.squared_norm, shortcut=_before_scaling))
register_order(paper, Pooling(lambda x: -x.squared_norm()), "min", extension=True)


@paper.each("argmax", "argmin", "argsort", row="Max-pooling", extension=True)
def by_norm(name: str, x: Q, dim: Any = ..., *args: Any, **named: Any) -> Tensor:
    """The same of the norms, which are real."""
    dim = (-1 if name == "argsort" else None) if dim is ... else dim
    refuse_over_vectors(x, range(x.rank) if dim is None else x.dims(dim), name)
    index: Tensor = getattr(Tensor, name)(x.squared_norm(), dim, *args, **named)
    return index


def _ordered(x: Q, dim: int, name: str, *args: Any, **named: Any) -> Any:
    (at,) = x.dims(dim)
    refuse_over_vectors(x, [at], name)
    index = getattr(torch, name)(x.squared_norm(), *args, dim=at, **named).indices
    values = x.same(x.components.gather(at + 1, index.expand(x.components.shape[0], *index.shape)))
    return getattr(torch.return_types, name)((values, index))


@paper.rule("topk", row="Max-pooling", extension=True)
def topk(x: Q, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k longest quaternions along an axis."""
    return _ordered(x, dim, "topk", k, largest=largest, sorted=sorted)


@paper.rule("sort", row="Max-pooling", extension=True)
def sort(x: Q, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    """Quaternions ordered by length."""
    return _ordered(x, dim, "sort", descending=descending, stable=bool(stable))
