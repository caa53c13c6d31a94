"""The loops of the fused edge convolution: over each point and its neighbours, all channels at once.

With y = A·x and z = (B − A)·x, both computed once a point, the edge (i, j) is e_ij = y_j + z_i. Each function here has a
plain-torch twin, which is its oracle and the path where numba is missing or the tensors are not on the CPU.

Shapes:
    y, z: (B, N, 3, O); idx: (B, N, k) int64; winner: (B, N, O) int16, the place of a neighbour in idx
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn.nn.loops import loops_run_on, run_loop

POINTS = 64  # of a task of the search, whose squared lengths are added up in float64


def search(
    y: Tensor, z: Tensor, idx: Tensor, measured: bool = True, into: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """For each point and channel which neighbour has the longest edge, that edge, and, if wanted, Σ_ij ‖e_ij‖² of each channel.

    The first of equally long edges wins; neighbours come nearest first, so no storage order decides. The loops may write
    winners and edges into given tensors.

    Returns:
        (B, N, O) int16, (B, N, 3, O), (O,) float64
    """
    if not loops_run_on(y):
        return search_reference(y, z, idx)
    clouds, points, _, channels = y.shape
    winner, edge = into or (torch.empty(clouds, points, channels, dtype=torch.int16), torch.empty_like(y))
    sums = torch.zeros(clouds, -(-points // POINTS), channels, dtype=torch.float64)
    run_loop("edge_loops", "search", y, z, idx, measured, winner, edge, sums)
    return winner, edge, sums.sum((0, 1))


def search_reference(y: Tensor, z: Tensor, idx: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`search` in plain torch, one neighbour at a time."""
    clouds = torch.arange(y.shape[0], device=y.device)[:, None]
    edge = y[clouds, idx[..., 0]] + z
    longest = edge.square().sum(2)
    winner = torch.zeros_like(longest, dtype=torch.int16)
    power = longest.double().sum((0, 1))
    for place in range(1, idx.shape[2]):
        candidate = y[clouds, idx[..., place]] + z
        length = candidate.square().sum(2)
        longer = length > longest
        winner = torch.where(longer, place, winner)
        edge = torch.where(longer[:, :, None], candidate, edge)
        longest = torch.where(longer, length, longest)
        power = power + length.double().sum((0, 1))
    return winner, edge, power


def pull(y: Tensor, z: Tensor, idx: Tensor, winner: Tensor, gradient: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradients of y and z from those of the winning edges (B, N, 3, O) and, weight (O,) times e_ij, of every edge."""
    gradient = gradient.contiguous()
    if not loops_run_on(y):
        return pull_reference(y, z, idx, winner, gradient, weight)
    of_y = torch.empty_like(y)
    if weight is None:
        run_loop("edge_loops", "scatter", gradient, winner, idx, of_y)
        return of_y, gradient
    of_z = torch.empty_like(z)
    run_loop("edge_loops", "pull", y, z, idx, winner, gradient, weight, of_y, of_z)
    return of_y, of_z


def pull_reference(
    y: Tensor, z: Tensor, idx: Tensor, winner: Tensor, gradient: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`pull` in plain torch, one neighbour at a time."""
    index = idx.gather(2, winner.long()).unsqueeze(2).expand_as(gradient)
    of_y, of_z = torch.zeros_like(y).scatter_add(1, index, gradient), gradient
    if weight is None:
        return of_y, of_z
    clouds = torch.arange(y.shape[0], device=y.device)[:, None]
    for place in range(idx.shape[2]):
        edge = weight * (y[clouds, idx[..., place]] + z)
        of_y = of_y.scatter_add(1, idx[:, :, place, None, None].expand_as(edge), edge)
        of_z = of_z + edge
    return of_y, of_z
