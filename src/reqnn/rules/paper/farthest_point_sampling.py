"""Table 1, "Farthest point sampling": starts at the centroid, a virtual point (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn import points
from reqnn.rules.point_function import Known, points_last, same_kind, tensors_and_numbers


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    """(xyz, npoint) in any order."""
    tensors, numbers = tensors_and_numbers(arguments)
    if len(tensors) != 1 or len(numbers) != 1 or not isinstance(numbers[0][1], int):
        return None
    xyz = points_last(tensors[0][1])
    return None if xyz is None or xyz.shape[-1] != 3 else points.farthest_point_sample(xyz, numbers[0][1])


FARTHEST_POINT_SAMPLING = Known(
    "Farthest point sampling",
    (
        "farthest_point_sample",
        "farthest_point_sampling",
        "furthest_point_sample",
        "furthest_point_sampling",
        "farthest_sampling",
        "furthest_sampling",
        "fps",
    ),
    _adapt,
    same_kind,
)
