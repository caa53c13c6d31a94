"""Table 1, "Grouping (ball query)": k-NN where the ball holds more than K points (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn import points
from reqnn.rules.point_function import Known, points_last, same_kind, tensors_and_numbers


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    """(radius, nsample, xyz, new_xyz) in any order; the centres come second or have a telling name."""
    tensors, numbers = tensors_and_numbers(arguments)
    if len(tensors) != 2 or len(numbers) != 2:
        return None
    radius = [value for name, value in numbers if isinstance(value, float) or name.startswith("r")]
    count = [value for name, value in numbers if isinstance(value, int) and not name.startswith("r")]
    if len(radius) != 1 or len(count) != 1:
        return None
    clouds = {name: points_last(x) for name, x in tensors}
    if any(x is None or x.shape[-1] != 3 for x in clouds.values()):
        return None
    names = list(clouds)
    centres = next((n for n in names if any(w in n for w in ("new", "cent", "query", "node", "key"))), names[1])
    cloud = next(name for name in names if name != centres)
    return points.ball_query(clouds[cloud], clouds[centres], radius[0], int(count[0]))


BALL_QUERY = Known(
    "Grouping (ball query)", ("query_ball_point", "ball_query", "query_ball", "ball_query_point"), _adapt, same_kind
)
