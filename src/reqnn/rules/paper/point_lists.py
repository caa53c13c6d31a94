"""Lists of points, one cloud after the other: the operators of pyg-lib and torch_cluster that PyTorch Geometric calls, by ours.

Each takes points (N, D) and pointers (B + 1,) to where the clouds begin, or None for one cloud, and gives edges (2, E): the
number of a query and that of a point. Neighbours are the nearest ones, where the originals take the first in storage; sampling
starts at the centroid, where the originals start at random (paper, section 3.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from reqnn import points
from reqnn.errors import NoRuleError
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q


def _clouds(*lists: tuple[Any, Tensor | None]) -> Iterator[list[tuple[int, Tensor]]]:
    """For each cloud where it begins, and its points (1, n, D), in every list."""
    if not all(isinstance(x, Q) and x.rank == 2 for x, _ in lists):
        raise NoRuleError("neighbours among quaternion features and real numbers")
    ends = [[0, x.user_shape[0]] if pointer is None else pointer.tolist() for x, pointer in lists]
    rows = [x.as_real_coordinates().detach() for x, _ in lists]
    for cloud in range(len(ends[0]) - 1):
        found = [(end[cloud], row[None, end[cloud] : end[cloud + 1]]) for end, row in zip(ends, rows, strict=True)]
        if all(x.shape[1] for _, x in found):
            yield found


Keep = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Points (1, n, D), queries (1, m, D) and indices (m, k) → which of these are neighbours."""


def _edges(x: Any, y: Any, ptr_x: Tensor | None, ptr_y: Tensor | None, k: int, keep: Keep | None = None) -> Tensor:
    """(2, E): for each of y the k nearest of x, nearest first, as far as they are kept."""
    found = []
    for (begin, cloud), (first, queries) in _clouds((x, ptr_x), (y, ptr_y)):
        index = points.knn(cloud, queries, min(k, cloud.shape[1]))[0]
        number = torch.arange(first, first + len(index), device=index.device)[:, None].expand_as(index)
        pairs = torch.stack([number, index + begin])
        found.append(pairs.flatten(1) if keep is None else pairs[:, keep(cloud, queries, index)])
    return torch.cat(found, 1)


@paper.rule("knn", row="Grouping (k-NN)")
def knn(
    x: Any, y: Any, ptr_x: Tensor | None = None, ptr_y: Tensor | None = None, k: int = 1, cosine: bool = False, *unused: Any
) -> Tensor:
    """For each of y its k nearest in x; by the angle between features, if asked for."""
    if cosine:
        x, y = (value / value.norm(dim=-1, keepdim=True) for value in (x, y))
    return _edges(x, y, ptr_x, ptr_y, k)


@paper.rule("nearest", row="Grouping (k-NN)")
def nearest(x: Any, y: Any, ptr_x: Tensor | None = None, ptr_y: Tensor | None = None) -> Tensor:
    """For each of x the nearest in y, (N,)."""
    return _edges(y, x, ptr_y, ptr_x, 1)[1]


@paper.rule("radius", row="Grouping (ball query)")
def radius(
    x: Any,
    y: Any,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    r: float = 1.0,
    max_num_neighbors: int | None = 32,
    num_workers: int = 1,
    ignore_same_index: bool = False,
) -> Tensor:
    """For each of y those of x within a radius, the nearest if there are more than asked for."""
    most = x.shape[0] if max_num_neighbors is None else max_num_neighbors

    def inside(cloud: Tensor, queries: Tensor, index: Tensor) -> Tensor:
        near = (cloud[0, index] - queries[0, :, None]).norm(dim=-1) <= r
        if ignore_same_index:
            near &= index != torch.arange(len(index), device=index.device)[:, None]
        return near & (near.cumsum(1) <= most)

    return _edges(x, y, ptr_x, ptr_y, most + ignore_same_index, inside)


@paper.rule("fps", row="Farthest point sampling")
def fps(x: Any, ptr: Tensor | None = None, ratio: Any = 0.5, random_start: bool = True, *unused: Any) -> Tensor:
    """The numbers of ⌈ratio·n⌉ points of each cloud, one after the other."""
    if isinstance(ratio, Tensor) and ratio.numel() > 1:
        raise NoRuleError("fps with another ratio for each cloud")
    clouds = [cloud for (cloud,) in _clouds((x, ptr))]
    counts = [math.ceil(float(ratio) * cloud.shape[1]) for _, cloud in clouds]
    found = zip(clouds, counts, strict=True)
    return torch.cat([begin + points.farthest_point_sample(cloud, count)[0] for (begin, cloud), count in found])
