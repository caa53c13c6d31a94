"""Table 1, "Density estimation": made of distances, so it has both properties; ours is the same, faster."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn import points
from reqnn.rules.point_function import Known, points_last, tensors_and_numbers


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    """(xyz, bandwidth)."""
    tensors, numbers = tensors_and_numbers(arguments)
    if len(tensors) != 1 or len(numbers) != 1 or not isinstance(numbers[0][1], float):
        return None
    xyz = points_last(tensors[0][1])
    return None if xyz is None or xyz.vectors != "v" else points.density(xyz, numbers[0][1])


def _same_numbers(arguments: dict[str, Any], ours: Tensor, theirs: Any) -> bool:
    """Whether it is the same density, to the rounding of squared distances."""
    if not isinstance(theirs, Tensor) or theirs.shape != ours.shape:
        return False
    return bool(torch.allclose(ours, theirs.to(ours.dtype), rtol=1e-3, atol=1e-6))


DENSITY_ESTIMATION = Known("Density estimation", ("compute_density", "density", "estimate_density"), _adapt, _same_numbers)
