"""Average pooling and interpolation: linear, so they act on each imaginary part alike. Not a row of Table 1: needs no rule."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from reqnn.rules.algebra.base import algebra, refuse_over_vectors
from reqnn.tensor import QuaternionTensor as Q

_POOLINGS = [f"{kind}avg_pool{spatial}d" for kind in ("", "_", "adaptive_", "_adaptive_") for spatial in (1, 2, 3)]


@algebra.each(*_POOLINGS, "interpolate", "_interpolate", "upsample", row="algebra")
def componentwise(name: str, x: Q, *args: Any, **kwargs: Any) -> Q:
    """``F.avg_pool1d`` … of every component."""
    axes = int(name[-2]) if "pool" in name else x.rank - 2
    refuse_over_vectors(x, range(x.rank - axes, x.rank), name)
    if "adaptive" in name and args in ((1,), ((1,) * axes,), ([1] * axes,)):  # no copy into another order
        kind = x.components.dtype
        wide = torch.promote_types(kind, torch.float32)
        total = x.components.sum(tuple(range(-axes, 0)), True, dtype=wide)  # its gradient is a view, that of a mean is not
        return x.same((total / x.stored_shape[-axes:].numel()).to(kind))
    batched = x.rank == axes + 2
    out = getattr(F, name.lstrip("_"))(x.components.flatten(0, 1) if batched else x.components, *args, **kwargs)
    return x.same(out.unflatten(0, (x.components.shape[0], -1)) if batched else out)
