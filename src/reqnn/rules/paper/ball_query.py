"""Table 1, "Grouping (ball query)": k-NN where the ball holds more than K points (paper, section 3.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn import points
from reqnn.rules.point_function import Known, as_numbers, points_last, roles, same_kind, tensors_and_numbers


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    """(radius, nsample, xyz, new_xyz) in any order; the centres come second or have a telling name.

    With the indices (B, M) of the centres in the cloud, a centre is only its own neighbour if there are too few others.
    """
    arguments, own = _without_own(arguments)
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
    cloud, centres = roles(clouds)
    if own is None:
        return points.ball_query(clouds[cloud], clouds[centres], radius[0], int(count[0]))
    return points.ball_query(clouds[cloud], clouds[centres], radius[0], int(count[0]) + 1)[:, :, 1:]  # the nearest is itself


def _without_own(arguments: dict[str, Any]) -> tuple[dict[str, Any], Tensor | None]:
    """The other arguments, and an integer tensor among three: which points of the cloud the centres are."""
    tensors, _ = tensors_and_numbers(arguments)
    indices = [name for name, x in tensors if not x.is_floating_point() and x.dim() == 2]
    if len(tensors) != 3 or len(indices) != 1:
        return arguments, None
    return {name: value for name, value in arguments.items() if name != indices[0]}, arguments[indices[0]]


def _fits(arguments: dict[str, Any], ours: Tensor, theirs: Tensor) -> bool:
    """Indices of the same shape; with the centres' own indices, these are left out where there are others."""
    arguments, own = _without_own(arguments)
    if not same_kind(arguments, ours, theirs):
        return False
    if own is None:
        return True
    with_others = (theirs != own.unsqueeze(-1)).any(-1) & (ours != own.unsqueeze(-1)).all(-1)
    return bool((theirs != own.unsqueeze(-1)).all(-1)[with_others].all())


def _is_ball(arguments: dict[str, Any], ours: Tensor, theirs: Tensor) -> bool:
    """Whether the indices name points inside the ball, and as many different ones as fit."""
    if _without_own(arguments)[1] is not None:
        return False  # known by its name only
    tensors, numbers = tensors_and_numbers(arguments)
    radius = next(value for name, value in numbers if isinstance(value, float) or name.startswith("r"))
    clouds = {name: x if x.shape[-1] == 3 else x.transpose(1, 2) for name, x in ((name, as_numbers(x)) for name, x in tensors)}
    cloud, centres = (clouds[name] for name in roles(clouds))
    if theirs.dim() != 3 or int(theirs.max()) >= cloud.shape[1] or int(theirs.min()) < 0:
        return False
    distance = torch.cdist(centres, cloud)  # (B, M, N)
    chosen = torch.zeros_like(distance).scatter(2, theirs.long(), 1.0)
    wanted = (distance <= radius).sum(2).clamp(max=theirs.shape[2])
    inside = bool((distance.gather(2, theirs.long()) <= radius * (1 + 1e-4)).double().mean() > 0.99)
    return inside and bool((chosen.sum(2) == wanted).double().mean() > 0.9) and bool((wanted > 1).any())


BALL_QUERY = Known(
    "Grouping (ball query)", ("query_ball_point", "ball_query", "query_ball", "ball_query_point"), _adapt, _fits, _is_ball
)
