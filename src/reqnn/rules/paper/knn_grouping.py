"""Table 1, "Grouping (k-NN)": has both properties by itself; ours also breaks ties by invariants."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn import points
from reqnn.rules.point_function import Known, points_last, same_neighbours, tensors_and_numbers
from reqnn.tensor import QuaternionTensor


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    """(x, k) among the points of one cloud, or (k, xyz, new_xyz)."""
    tensors, numbers = tensors_and_numbers(arguments)
    counts = [value for _, value in numbers if isinstance(value, int)]
    if len(tensors) not in (1, 2) or len(counts) != 1 or len(numbers) != 1:
        return None
    if len(tensors) == 1:
        x = tensors[0][1]
        if not isinstance(x, QuaternionTensor) or x.rank != 3:
            return None
        x = x.transpose(1, 2) if _channels_first(tensors[0][0], x) else x
        return points.knn(x, x, counts[0])
    clouds = {name: points_last(x) for name, x in tensors}
    if any(x is None for x in clouds.values()):
        return None
    names = list(clouds)
    query = next((n for n in names if any(w in n for w in ("new", "cent", "query", "tgt", "dst"))), names[1])
    cloud = next(name for name in names if name != query)
    return points.knn(clouds[cloud], clouds[query], counts[0])


def _channels_first(name: str, x: QuaternionTensor) -> bool:
    """(B, C, N), as DGCNN has it; on coordinates the axis of vectors tells, on features the argument's usual name."""
    return x.axis == 1 if x.axis is not None else name == "x"


KNN_GROUPING = Known(
    "Grouping (k-NN)",
    ("knn", "knn_point", "knn_query", "knn_points", "k_nn"),
    _adapt,
    same_neighbours,
    lambda arguments, ours, theirs: same_neighbours(ours, theirs),
)
