"""Why an equivariant network may still change an answer: ties between neighbours, and float32 rounding.

If the k-th and the next neighbour of a point are equally far, invariants of the points decide (`reqnn.points.ties`); if these
are equal too, as in a symmetric shape, none of the tied points is taken. If that leaves no point, the neighbourhood is
*ambiguous*.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.rotated_test_set import RotatedTestSet
from reqnn.data.rotation import rotate_by
from reqnn.models.grouping import clouds_without, index_points
from reqnn.points import count_ties, farthest_point_sample, frame_ambiguity
from reqnn.points._coordinates import distances
from reqnn.points.ties import tie_tolerance
from reqnn.train.config import TrainConfig
from reqnn.train.prediction import predict

LOOKED_AT = 1000  # test shapes whose neighbourhoods are counted: all of 3D MNIST's
_BLOCK = 2**24  # distances at a time

_NEIGHBOURS = {"dgcnn": ("k", 20), "pointnet2": ("nsample", 32), "pointconv": ("nsample", 32), "rscnn": ("nsample", 48)}
"""Network → the option with the neighbours of its first layer, and its default."""


def neighbours(config: TrainConfig) -> int | None:
    """The neighbours per point in the first layer of a network; None for unknown networks."""
    if config.model not in _NEIGHBOURS:
        return None
    option, published = _NEIGHBOURS[config.model]
    given = config.options.get(option, published)
    return int(given[0] if isinstance(given, (list, tuple)) else given)


def searched_points(points: Tensor, config: TrainConfig) -> list[Tensor]:
    """The points whose neighbours the first layer searches: all, or one or several samples for a DGCNN with `sample`.

    Shapes: points (S, N, 3) -> one or several times (S, M, 3)
    """
    count, votes = config.options.get("sample"), config.options.get("votes", 1)
    if count is None:
        return [points]
    first = farthest_point_sample(points, count)
    others = [index_points(rest, farthest_point_sample(rest, count)) for rest in clouds_without(points, first, votes - 1)]
    return [index_points(points, first), *others]


def ties_of(points: Tensor, config: TrainConfig) -> tuple[Tensor, Tensor, int]:
    """The tied and the ambiguous neighbourhoods per cloud in the input of the first layer, and the number of all.

    Shapes: points (S, N, 3) -> (S,) int64, (S,) int64; zeros for unknown networks
    """
    tied, ambiguous = torch.zeros(2, len(points), dtype=torch.int64)
    k, looked_at = neighbours(config), 0
    if k is not None:
        for some in searched_points(points, config):
            more_tied, more_ambiguous = neighbourhood_ties(some, k)
            tied, ambiguous, looked_at = tied + more_tied, ambiguous + more_ambiguous, looked_at + some[..., 0].numel()
    return tied, ambiguous, looked_at


def neighbourhood_ties(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The number of points per cloud whose k-th neighbour is tied with the next one, and of those that stay ambiguous.

    Shapes: points (S, N, 3) -> (S,) int64, (S,) int64
    """
    size = points.shape[1]
    if k >= size:
        return torch.zeros(2, len(points), dtype=torch.int64).unbind()  # type: ignore[return-value]
    tied, ambiguous = [], []
    for part in points.split(max(1, _BLOCK // size**2)):
        distance = distances(part, part).topk(k + 1, largest=False).values
        at_the_end = distance[..., k] - distance[..., k - 1] <= tie_tolerance(part)[:, None]
        tied.append(at_the_end.sum(1))
        ambiguous.append(count_ties(part, part, k))
    return torch.cat(tied), torch.cat(ambiguous)


def count_ambiguity(points: Tensor, config: TrainConfig) -> dict[str, Any] | None:
    """Ties in the input of the first layer, over the first `LOOKED_AT` test clouds (S, N, 3), for JSON; None if unknown."""
    if neighbours(config) is None:
        return None
    some = points[:LOOKED_AT]
    tied, ambiguous, looked_at = ties_of(some, config)
    found: dict[str, Any] = {
        "neighbours": neighbours(config),
        "shapes": len(some),
        "neighbourhoods": looked_at,
        "tied": int(tied.sum()),
        "ambiguous": int(ambiguous.sum()),
        "shapes_with_ambiguous": int((ambiguous > 0).sum()),
    }
    if config.model in ("pointconv", "rscnn"):
        found["ambiguous_frames"] = int(frame_ambiguity(some).sum())
    return found


def explain_changes(
    model: nn.Module, config: TrainConfig, rotated: RotatedTestSet, logits: Tensor, changed: list[int]
) -> list[dict[str, Any]]:
    """Every shape whose answer changes over its rotations, and why; float64 separates rounding from other causes.

    `margin` is the smallest lead of the best logit over the second; `logit_change` the largest change of a logit. Both are
    also given in float64, where clouds are rotated and classified without rounding to float32.

    Shapes: logits (shapes, copies, classes)
    """
    classes, points, matrices = rotated.clouds.classes, rotated.clouds.points, rotated.matrices
    precise = copy.deepcopy(model).cpu().double() if changed else model
    found = []
    for shape in changed:
        cloud = points[shape].double()
        exact = predict(precise, rotate_by(cloud.expand(rotated.copies, -1, -1), matrices[shape]), batch=rotated.copies)
        tied, ambiguous, _ = ties_of(points[shape : shape + 1], config)
        record = {
            "shape": shape,
            "class": classes[int(rotated.clouds.labels[shape])],
            "answers": _answers(logits[shape], classes),
            "margin": _margin(logits[shape]),
            "logit_change": _change(logits[shape]),
            "answers_float64": _answers(exact, classes),
            "margin_float64": _margin(exact),
            "logit_change_float64": _change(exact),
            "tied": int(tied),
            "ambiguous": int(ambiguous),
        }
        found.append({**record, "cause": _cause(record)})
    return found


def _cause(record: dict[str, Any]) -> str:
    if len(record["answers_float64"]) == 1 and record["logit_change_float64"] < record["margin_float64"]:
        return "rounding"
    return "ambiguous neighbourhoods" if record["ambiguous"] else "unexplained"


def _answers(logits: Tensor, classes: tuple[str, ...]) -> dict[str, int]:
    """How often each class is the answer, the most frequent first: (copies, classes)."""
    counts = torch.bincount(logits.argmax(-1), minlength=len(classes))
    order = counts.argsort(descending=True, stable=True).tolist()
    return {classes[i]: int(counts[i]) for i in order if counts[i]}


def _margin(logits: Tensor) -> float:
    best = logits.topk(2, dim=-1).values
    return (best[:, 0] - best[:, 1]).min().item()


def _change(logits: Tensor) -> float:
    return (logits.amax(0) - logits.amin(0)).max().item()
