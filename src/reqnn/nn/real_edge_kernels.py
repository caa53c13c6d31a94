"""The loops of the factorised real edge convolution: over each point and its neighbours, all channels at once.

With y = A·x and z = (B − A)·x, both computed once a point, the edge (i, j) is e_ij = y_j + z_i. The winner of a channel is
its largest edge where `sign` is 1, its smallest where it is −1, and the first where it is 0 or several are equal. Each
function here has a plain-torch twin, which is its oracle and the path where numba is missing or the tensors are not on the
CPU.

Shapes:
    y, z: (B, N, O); idx: (B, N, k) int64; sign: (O,); winner: (B, N, O), the place of the neighbour among the k
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn.kernels import real_edge_loops
from reqnn.kernels.run import loops_run_on, run

ROWS = 32  # as in the compiled loops


def search(y: Tensor, z: Tensor, idx: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
    """The winners, and their edges: (B, N, O), (B, N, O)."""
    if not loops_run_on(y):
        return search_reference(y, z, idx, sign)
    winner, edge = torch.empty_like(y, dtype=_places(idx)), torch.empty_like(y)
    run(real_edge_loops.search, y, z, idx, sign, winner, edge)
    return winner, edge


def search_reference(y: Tensor, z: Tensor, idx: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
    """`search` in plain torch, one neighbour at a time."""
    edge = _edges(y, z, idx, 0)
    winner = torch.zeros_like(edge, dtype=_places(idx))
    for place in range(1, idx.shape[2]):
        candidate = _edges(y, z, idx, place)
        better = sign * candidate > sign * edge
        winner = torch.where(better, place, winner)
        edge = torch.where(better, candidate, edge)
    return winner, edge


def search_and_sum(
    y: Tensor, z: Tensor, idx: Tensor, sign: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`search`, with Σ_j d_ij of each point (B, N, O), and Σ_ij d_ij and Σ_ij d_ij² (O,) in float64, for d_ij = e_ij − shift.

    With a shift (O,) near the mean no digits are lost, however far from zero the edges are.
    """
    if not loops_run_on(y):
        return search_and_sum_reference(y, z, idx, sign, shift)
    winner, edge, sums = torch.empty_like(y, dtype=_places(idx)), torch.empty_like(y), torch.empty_like(y)
    tasks = -(-y.shape[0] * y.shape[1] // ROWS)
    totals, squares = (torch.empty(tasks, y.shape[2], dtype=torch.float64) for _ in range(2))
    run(real_edge_loops.search_and_sum, y, z, idx, sign, shift, winner, edge, sums, totals, squares)
    return winner, edge, sums, totals.sum(0), squares.sum(0)


def search_and_sum_reference(
    y: Tensor, z: Tensor, idx: Tensor, sign: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`search_and_sum` in plain torch."""
    winner, edge = search_reference(y, z, idx, sign)
    sums, square = torch.zeros_like(y), torch.zeros(y.shape[2], dtype=torch.float64, device=y.device)
    for place in range(idx.shape[2]):
        difference = _edges(y, z, idx, place) - shift
        sums = sums + difference
        square = square + difference.double().square().sum((0, 1))
    return winner, edge, sums, sums.double().sum((0, 1)), square


def spread(
    gradient: Tensor, winner: Tensor, y: Tensor, z: Tensor, idx: Tensor, mean: Tensor, slope: Tensor, level: Tensor
) -> Tensor:
    """The gradient of y: that of the winning edges (B, N, O), and slope·(e_ij − mean) + level (O,) of all: (B, N, O)."""
    if not loops_run_on(y):
        out = scatter(gradient, winner, idx)
        for place in range(idx.shape[2]):
            every = slope * (_edges(y, z, idx, place) - mean) + level
            out = out.scatter_add(1, idx[:, :, place, None].expand_as(every), every)
        return out
    clouds, points, k = idx.shape
    start = torch.empty(clouds, points + 1, dtype=torch.int64)
    source, places = (torch.empty(clouds, points * k, dtype=kind) for kind in (torch.int32, winner.dtype))
    run(real_edge_loops.transpose, idx, start, source, places)
    out = torch.empty_like(y)
    run(real_edge_loops.spread, gradient, winner, y, z, mean, slope, level, start, source, places, out)
    return out


def scatter(gradient: Tensor, winner: Tensor, idx: Tensor) -> Tensor:
    """The gradient of the winning edges, added up at the neighbours that won: (B, N, O)."""
    if not loops_run_on(gradient):
        return torch.zeros_like(gradient).scatter_add(1, idx.gather(2, winner.long()), gradient)
    out = torch.zeros_like(gradient)
    run(real_edge_loops.scatter, gradient, winner, idx, out)
    return out


def _places(idx: Tensor) -> torch.dtype:
    """The smallest dtype that holds the place of a neighbour: winners are kept for backward."""
    return torch.uint8 if idx.shape[2] <= 256 else torch.int32


def _edges(y: Tensor, z: Tensor, idx: Tensor, place: int) -> Tensor:
    """The edges to the neighbours at one place: (B, N, O)."""
    return y.gather(1, idx[:, :, place, None].expand_as(z)) + z
