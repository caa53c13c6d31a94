"""Average pooling and interpolation: linear, so they act on each imaginary part alike. Not a row of Table 1: needs no rule."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from reqnn.rules.algebra.base import algebra, refuse_over_vectors
from reqnn.tensor import QuaternionTensor as Q


def _componentwise(name: str, spatial: int) -> None:
    function = getattr(F, name)

    def apply(x: Q, *args: Any, **kwargs: Any) -> Q:
        for dim in range(x.rank - spatial, x.rank):
            refuse_over_vectors(x, [dim], name)
        batched = x.rank == spatial + 2
        out = function(x.components.flatten(0, 1) if batched else x.components, *args, **kwargs)
        return x.same(out.unflatten(0, (x.components.shape[0], -1)) if batched else out)

    apply.__doc__ = f"``F.{name}`` of every component."
    algebra.rule(name, f"_{name}", row="algebra")(apply)


for _spatial in (1, 2, 3):
    _componentwise(f"avg_pool{_spatial}d", _spatial)
    _componentwise(f"adaptive_avg_pool{_spatial}d", _spatial)


@algebra.rule("interpolate", "upsample", row="algebra")
def interpolate(x: Q, *args: Any, **kwargs: Any) -> Q:
    """Interpolation along the spatial axes is linear."""
    for dim in range(2, x.rank):
        refuse_over_vectors(x, [dim], "interpolate")
    out = F.interpolate(x.components.flatten(0, 1), *args, **kwargs)
    return x.same(out.unflatten(0, (x.components.shape[0], -1)))
