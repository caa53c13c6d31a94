"""Compiled kernels behind the operations on points, for tensors on the CPU: same indices as plain torch, faster.

numba is imported, and kernels compiled or read from the cache, at the first call. Without numba, on other devices,
while a graph is traced and with REQNN_KERNELS=off in the environment the plain-torch reference runs instead.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reqnn.kernels import run
from reqnn.kernels.products import times
from reqnn.points._coordinates import extremes
from reqnn.points.ties import Centered

MARGIN = 8  # candidates of a neighbour search beyond the k-th
TREE_DIMENSION = 3  # up to which the search goes by a k-d tree
SMALL = 1 << 16  # distances of a search, up to which plain torch is as fast and nothing has to be compiled
BLOCK = 1 << 20  # entries of a block of squared distances: 4 MB, the share of a core in the last cache
VECTOR = {"AVX2": 32, "AVX512": 64}  # bytes that torch works on at a time; 16 elsewhere


class Neighbours(NamedTuple):
    """What a search has found, and for which queries the reference must have the last word."""

    found: Tensor  # (B, M, k)
    unclear: Tensor  # (B, M): to be decided among the candidates, by the distances of the reference
    unfinished: Tensor  # (B, M): to be decided among all points
    candidates: Tensor  # (B, M, W), where unclear
    beyond: Tensor  # (B, M) float64, where unclear: no other point has a reference distance below this


def serves(*tensors: Tensor) -> bool:
    """Whether kernels may run on these: plain CPU tensors with values whose squares do not overflow."""
    if torch.compiler.is_compiling() or not all(type(x) is Tensor and x.device.type == "cpu" for x in tensors):
        return False
    bound = torch.finfo(tensors[0].dtype).max ** 0.5 / 1e3
    different = {id(x): x for x in tensors}.values()  # a cloud that is its own query is looked through once
    return run.enabled and all(max(map(abs, extremes(x))) < bound for x in different)


def serves_search(xyz: Tensor, query: Tensor, k: int) -> bool:
    """Whether the neighbour search takes these: enough work, not too many neighbours, exact matrix products."""
    batch, points, dimension = xyz.shape
    if batch * query.shape[1] * points <= SMALL:
        return False
    widest: int = _compiled("tie_rule").WIDEST
    exact = dimension <= TREE_DIMENSION or torch.get_float32_matmul_precision() == "highest"
    return exact and min(k + MARGIN, points) <= widest


def farthest_points(
    xyz: Tensor, distance: Tensor, ties: tuple[Tensor, Tensor, Tensor], size: Tensor, weights: Tensor
) -> Tensor:
    """Steps of farthest point sampling: centred xyz (B, N, 3), their norms (B, N), weights (n,) -> (B, n) int64.

    ties: ranks (B, N), tolerance and slack (B,).
    """
    chosen = torch.empty(xyz.shape[0], len(weights), dtype=torch.int64)
    loop = _compiled("farthest").sample_clouds
    run.run(loop, xyz.mT.contiguous(), distance.clone(), *ties, size, weights, chosen)
    return chosen


def nearest_points(
    xyz: Tensor, query: Tensor, k: int, about: Centered, ties: tuple[Tensor, Tensor], limit: Tensor | None
) -> Neighbours:
    """k nearest of xyz (B, N, D) to each query (B, M, D), by tied run, then rank; ties: rank (B, N), tolerance (B,).

    Ties for the last place are taken whole or not at all, as in `reqnn.points.ties.whole_ties`.

    With a limit (B,), for D ≤ 3 only, the nearest replaces each point farther away than that.
    """
    codes = _compiled("tie_rule")
    batch, rows, dimension = query.shape
    width = min(k + MARGIN, xyz.shape[1])
    found = torch.empty(batch, rows, k, dtype=torch.int64)
    status = torch.empty(batch, rows, dtype=torch.int8)
    candidates = torch.empty(batch, rows, width, dtype=torch.int64)
    beyond = torch.empty(batch, rows, dtype=torch.float64)
    output = (found, status, candidates, beyond)
    relative, floor = _error(xyz)
    rank, tolerance = ties
    if dimension <= TREE_DIMENSION:
        limit = torch.full_like(tolerance, torch.inf) if limit is None else limit
        _search_trees(xyz, query, (rank, tolerance.double(), limit.double(), relative, floor), output)
    else:
        assert limit is None, "only the tree search takes a limit"
        _search_rows(xyz, query, about, (rank, tolerance.double(), relative, floor), output)
    beyond = torch.where(beyond < torch.inf, beyond * (1 - relative) - floor, torch.inf)
    return Neighbours(found, status == codes.UNCLEAR, status == codes.OPEN, candidates, beyond)


def sum_gaussians(xyz: Tensor, bandwidth: float) -> Tensor:
    """Σ_j exp(-‖x_i - x_j‖² / 2h²) at every point of float32 clouds, in float64: (B, N, 3) -> (B, N).

    What is left out is below a quarter of a float32 eps, beside the sum, which is at least 1.
    """
    codes = _compiled("gaussian")
    points, order, start, box = _build_trees(xyz.double().contiguous(), codes.BLOCK)
    scale, eps = -0.5 / bandwidth**2, torch.finfo(xyz.dtype).eps
    reach = math.log(4 * xyz.shape[1] / eps) / -scale
    cloud = points.to(xyz.dtype).mT.contiguous()  # the points of the tree are those of xyz, in another order
    sums = torch.empty_like(order, dtype=torch.float64)
    run.run(codes.sum_gaussians, cloud, start, box, scale, reach, sums)
    return torch.empty_like(sums).scatter_(1, order, sums)


def _search_trees(xyz: Tensor, query: Tensor, rule: tuple, output: tuple) -> None:
    padding = (0, TREE_DIMENSION - xyz.shape[2])
    cloud, query = (torch.nn.functional.pad(x.double(), padding).contiguous() for x in (xyz, query))
    codes = _compiled("trees")
    run.run(codes.search_trees, *_build_trees(cloud, codes.LEAF), cloud, query, *rule, *output)


def _build_trees(cloud: Tensor, leaf: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Balanced k-d trees of (B, N, 3), float64: points in their order, that order, where nodes start and end, their boxes."""
    batch, points, dimension = cloud.shape
    nodes = 1
    while points > leaf * (nodes + 1) // 2:
        nodes = 2 * nodes + 1
    tree = (
        torch.empty_like(cloud),
        torch.empty(batch, points, dtype=torch.int64),
        torch.empty(nodes, 2, dtype=torch.int64),
        torch.empty(batch, nodes, 2 * dimension, dtype=torch.float64),
    )
    _compiled("trees").build_trees(cloud.numpy(), *(x.numpy() for x in tree))
    return tree


def _search_rows(xyz: Tensor, query: Tensor, about: Centered, rule: tuple, output: tuple) -> None:
    """Some clouds at a time, so that the matrix of squares is still in the cache when it is looked through."""
    batch, points, dimension = xyz.shape
    same = query.data_ptr() == xyz.data_ptr() and query.shape == xyz.shape and query.stride() == xyz.stride()
    x, square = about.xyz, about.length.square()
    q = x if same else about.shift(query)
    length = (about.length if same else torch.linalg.vector_norm(q, dim=-1)).double()
    reach = about.length.amax(1).double()
    # rounding of ⟨q, x⟩, ‖x‖², ‖q‖² (D each) and of the centring, all relative to (‖q‖ + ‖x‖)²
    error = 1.1 * (dimension + 14) * torch.finfo(xyz.dtype).eps / 2
    xyz, query, (rank, tolerance, *bounds) = xyz.contiguous(), query.contiguous(), rule
    rows = min(query.shape[1], max(1, BLOCK // points))
    clouds = max(1, BLOCK // (points * query.shape[1]))
    for b in (slice(i, i + clouds) for i in range(0, batch, clouds)):
        for part in (slice(i, i + rows) for i in range(0, query.shape[1], rows)):
            with torch.autocast("cpu", enabled=False):
                product = q[b, part] @ x[b].mT if clouds > 1 else times(q[b.start, part], x[b.start])[None]
            given = (length[b, part], reach[b], error, product, square[b], xyz[b], query[b, part], rank[b], tolerance[b])
            run.run(_compiled("rows").search_rows, *given, *bounds, *(x[b, part] for x in output))


def _error(xyz: Tensor) -> tuple[float, float]:
    """Bound on the difference between a distance of the reference and ours, relative and absolute.

    A sum of D squares is known to a rounding for each addition in a row and three for the square of a difference; the
    root halves that and adds its own. The reference adds in vectors of the CPU's width; ours, in double, in any order.
    """
    dimension, eps = xyz.shape[2], torch.finfo(xyz.dtype).eps
    lanes = VECTOR.get(torch.backends.cpu.get_cpu_capability(), 16) // xyz.element_size()
    additions = dimension if dimension <= 4 * lanes else dimension / lanes + lanes
    relative = ((additions + 3) / 2 + 1) * eps / 2 + ((dimension + 3) / 2 + 1) * torch.finfo(torch.float64).eps / 2
    return 1.1 * relative, 2 * (dimension * torch.finfo(xyz.dtype).smallest_normal * eps) ** 0.5


def _compiled(module: str) -> Any:
    return importlib.import_module(f"{__name__}.{module}")
