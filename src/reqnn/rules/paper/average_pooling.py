"""Average pooling and interpolation: linear, so they act on each imaginary part alike. Not a row of Table 1: needs no rule."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from reqnn.rules.algebra.base import algebra, refuse_over_vectors
from reqnn.tensor import QuaternionTensor as Q


def _componentwise(name: str, spatial: int | None, *also: str) -> None:
    function = getattr(F, name)

    def apply(x: Q, *args: Any, **kwargs: Any) -> Q:
        axes = x.rank - 2 if spatial is None else spatial
        refuse_over_vectors(x, range(x.rank - axes, x.rank), name)
        if name.startswith("adaptive") and args in ((1,), ((1,) * axes,), ([1] * axes,)):  # no copy into another order
            return x.same(x.components.mean(tuple(range(-axes, 0)), keepdim=True))
        batched = x.rank == axes + 2
        out = function(x.components.flatten(0, 1) if batched else x.components, *args, **kwargs)
        return x.same(out.unflatten(0, (x.components.shape[0], -1)) if batched else out)

    apply.__doc__ = f"``F.{name}`` of every component."
    algebra.rule(name, f"_{name}", *also, row="algebra")(apply)


for _spatial in (1, 2, 3):
    _componentwise(f"avg_pool{_spatial}d", _spatial)
    _componentwise(f"adaptive_avg_pool{_spatial}d", _spatial)
_componentwise("interpolate", None, "upsample")
