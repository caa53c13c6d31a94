"""Table 1, "Farthest point sampling": starts at the centroid, a virtual point (paper, section 3.4)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reqnn import points
from reqnn.rules.point_function import Known, as_numbers, points_last, same_kind, tensors_and_numbers


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    """(xyz, npoint) in any order."""
    tensors, numbers = tensors_and_numbers(arguments)
    if len(tensors) != 1 or len(numbers) != 1 or not isinstance(numbers[0][1], int):
        return None
    xyz = points_last(tensors[0][1])
    return None if xyz is None or xyz.shape[-1] != 3 else points.farthest_point_sample(xyz, numbers[0][1])


def _is_farthest(arguments: dict[str, Any], ours: Tensor, theirs: Tensor) -> bool:
    """Whether each index names the point that is farthest from those before, wherever it began."""
    xyz = as_numbers(tensors_and_numbers(arguments)[0][0][1])
    xyz = xyz.transpose(1, 2) if xyz.shape[-1] != 3 else xyz
    if theirs.dim() != 2 or theirs.shape[1] < 3 or int(theirs.max()) >= xyz.shape[1] or int(theirs.min()) < 0:
        return False
    nearest = torch.full(xyz.shape[:2], float("inf"), dtype=xyz.dtype, device=xyz.device)
    agree = []
    for here, after in pairwise(theirs.long().unbind(1)):
        distance = (xyz - xyz.gather(1, here[:, None, None].expand(-1, 1, 3))).norm(dim=-1)
        nearest = torch.minimum(nearest, distance)
        agree.append(nearest.gather(1, after[:, None])[:, 0] >= nearest.amax(1) * (1 - 1e-4))
    return bool(torch.stack(agree).double().mean() > 0.9) and bool(nearest.max() > 0)


_NAMES = [f"f{a}rthest_{what}" for a in "au" for what in ("point_sample", "point_sampling", "sampling")]
FARTHEST_POINT_SAMPLING = Known("Farthest point sampling", (*_NAMES, "fps"), _adapt, same_kind, _is_farthest, chooses=True)
