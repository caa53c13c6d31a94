"""Table 1, "Grouping (k-NN)": has both properties by itself; ours also breaks ties by invariants."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn import points
from reqnn.points._coordinates import as_coordinates, distances
from reqnn.rules.algebra.products import predicted_vectors
from reqnn.rules.point_function import Known, points_last, roles, same_kind, tensors_and_numbers
from reqnn.tensor import QuaternionTensor


def _adapt(arguments: dict[str, Any]) -> Tensor | None:
    found = _clouds(arguments)
    return None if found is None else points.knn(*found)


def _clouds(arguments: dict[str, Any]) -> tuple[Any, Any, int] | None:
    """Cloud, queries and k from (x, k) among the points of one cloud, or (k, xyz, new_xyz)."""
    tensors, numbers = tensors_and_numbers(arguments)
    counts = [value for _, value in numbers if isinstance(value, int)]
    if len(tensors) not in (1, 2) or len(counts) != 1 or len(numbers) != 1:
        return None
    if len(tensors) == 1:
        x = tensors[0][1]
        if not isinstance(x, QuaternionTensor) or x.rank != 3:
            return None
        x = x.transpose(1, 2) if _channels_first(tensors[0][0], x) else x
        return x, x, counts[0]
    clouds = {name: points_last(x) for name, x in tensors}
    if any(x is None for x in clouds.values()):
        return None
    cloud, query = roles(clouds)
    predicted_vectors(clouds[cloud], clouds[query])
    return clouds[cloud], clouds[query], counts[0]


def _channels_first(name: str, x: QuaternionTensor) -> bool:
    """(B, C, N), as DGCNN has it; on coordinates the axis of vectors tells, on features the argument's usual name."""
    return x.axis == 1 if x.axis is not None else name == "x"


def _are_nearest(arguments: dict[str, Any], ours: Tensor, theirs: Any) -> bool:
    """Whether the indices mostly name nearest points: by distances, as of points that tie a function may take any."""
    found = _clouds(arguments)
    if found is None or not same_kind(arguments, ours, theirs):
        return False
    cloud, query, k = as_coordinates(found[0]), as_coordinates(found[1]), found[2]
    if int(theirs.max()) >= cloud.shape[1] or int(theirs.min()) < 0:
        return False
    distance = distances(query, cloud).detach()
    nearest = distance.topk(k, largest=False).values
    agree = distance.gather(2, theirs.long()).sort(-1).values <= nearest * (1 + 1e-4)
    return bool(agree.double().mean() > 0.9)


KNN_GROUPING = Known(
    "Grouping (k-NN)",
    ("knn", "knn_point", "knn_query", "knn_points", "k_nn"),
    _adapt,
    _are_nearest,
    _are_nearest,
)
