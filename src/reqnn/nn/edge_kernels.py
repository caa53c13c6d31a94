"""The loops of the fused edge convolution: over each point and its neighbours, all channels at once.

With y = A·x and z = (B − A)·x, both computed once a point, the edge (i, j) is e_ij = y_j + z_i. Each function here has a
plain-torch twin, which is its oracle and the path where numba is missing or the tensors are not on the CPU.

Shapes:
    y, z: (B, N, 3, O); idx: (B, N, k) int64; winner: (B, N, O) int64
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn.nn.loops import loops_run_on, run_loop


def search(y: Tensor, z: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
    """For each point and channel the neighbour with the longest edge, and that edge: (B, N, O), (B, N, 3, O).

    The first of equally long edges wins; neighbours come nearest first, so no storage order decides.
    """
    if not loops_run_on(y):
        return search_reference(y, z, idx)
    winner = torch.empty(y.shape[0], y.shape[1], y.shape[3], dtype=torch.int64)
    edge = torch.empty_like(y)
    run_loop("edge_loops", "search", y, z, idx, winner, edge)
    return winner, edge


def search_reference(y: Tensor, z: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
    """`search` in plain torch, one neighbour at a time."""
    clouds = torch.arange(y.shape[0], device=y.device)[:, None]
    edge = y[clouds, idx[..., 0]] + z
    longest = edge.square().sum(2)
    winner = idx[..., :1].expand(-1, -1, y.shape[3])
    for place in range(1, idx.shape[2]):
        candidate = y[clouds, idx[..., place]] + z
        length = candidate.square().sum(2)
        longer = length > longest
        winner = torch.where(longer, idx[..., place, None], winner)
        edge = torch.where(longer[:, :, None], candidate, edge)
        longest = torch.where(longer, length, longest)
    return winner, edge


def search_and_sum(y: Tensor, z: Tensor, idx: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`search`, with Σ_j e_ij of each point (B, N, 3, O) and Σ_ij ‖e_ij‖² of each channel (O,), summed in float64."""
    if not loops_run_on(y):
        return search_and_sum_reference(y, z, idx)
    winner = torch.empty(y.shape[0], y.shape[1], y.shape[3], dtype=torch.int64)
    edge, sums = torch.empty_like(y), torch.empty_like(y)
    rows = torch.empty(y.shape[0] * y.shape[1], y.shape[3], dtype=y.dtype)
    run_loop("edge_loops", "search_and_sum", y, z, idx, winner, edge, sums, rows)
    return winner, edge, sums, rows.double().sum(0)


def search_and_sum_reference(y: Tensor, z: Tensor, idx: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`search_and_sum` in plain torch."""
    winner, edge = search_reference(y, z, idx)
    clouds = torch.arange(y.shape[0], device=y.device)[:, None]
    sums, power = torch.zeros_like(y), torch.zeros(y.shape[3], dtype=torch.float64, device=y.device)
    for place in range(idx.shape[2]):
        candidate = y[clouds, idx[..., place]] + z
        sums = sums + candidate
        power = power + candidate.square().double().sum((0, 1, 2))
    return winner, edge, sums, power


def scatter(gradient: Tensor, winner: Tensor) -> Tensor:
    """The gradient of the winning edges, added up at the neighbours that won: (B, N, 3, O)."""
    if not loops_run_on(gradient):
        index = winner.unsqueeze(2).expand_as(gradient)
        return torch.zeros_like(gradient).scatter_add(1, index, gradient)
    out = torch.zeros_like(gradient, memory_format=torch.contiguous_format)
    run_loop("edge_loops", "scatter", gradient.contiguous(), winner, out)
    return out


def spread(y: Tensor, z: Tensor, idx: Tensor) -> Tensor:
    """Σ_{i: j ∈ N(i)} e_ij at each neighbour j: (B, N, 3, O)."""
    if not loops_run_on(y):
        degree = torch.zeros(y.shape[:2], dtype=y.dtype, device=y.device)
        degree = degree.scatter_add(1, idx.flatten(1), torch.ones_like(idx.flatten(1), dtype=y.dtype))
        out = y * degree[:, :, None, None]
        for place in range(idx.shape[2]):
            out = out.scatter_add(1, idx[:, :, place, None, None].expand_as(z), z)
        return out
    out = torch.zeros_like(y)
    run_loop("edge_loops", "spread", y, z, idx, out)
    return out
