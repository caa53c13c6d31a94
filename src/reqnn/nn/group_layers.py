"""The layers of a fused MLP on groups of neighbours, each with its derivative by hand.

    edge_linear     a = W·ReLU(s·(y_j + z_i))     the first layer was applied before the gather: y_j + z_i is not stored
    row_linear      a = W·ReLU(s·x)
    longest_linear  the longest row of W·ReLU(s·x) in each group, and Σ‖·‖² of all: W·ReLU(s·x) is not stored
    weighted_sum    Σ_j ReLU(s·x_j) ⊗ w_j over each group

All work through some thousand rows at a time, so that what one step leaves in the cache the next finds there; what the
backward pass needs of h = ReLU(s·x) it computes anew. Only winners have a gradient in `longest_linear`. The statistic of all
rows, Σ_r ‖W·h_r‖², has one at every row, but no product with W is needed for it: with G = Σ_r h_r h_rᵀ and a gradient t of
the statistic, ∂W = 2·t·W·G and ∂h_r = 2·h_r·(Wᵀ t W).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reqnn.nn.groups import Groups
from reqnn.nn.loops import run_loop
from reqnn.nn.power import Power
from reqnn.nn.rows import block_sums
from reqnn.products import times

CENTRES = 16  # groups that are summed up before sums are added in float64
TASKS = 8  # partial sums of a weight gradient: a fixed number, so that the result does not depend on the threads


class _EdgeLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
        ctx.save_for_backward(y, z, weight, mean)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        out = y.new_empty(groups.rows, 3, weight.shape[0])
        for h, rows in _edge_chunks(y, z, power, c, groups):
            torch.mm(h.flatten(0, 1), weight.T, out=out[rows].flatten(0, 1))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        y, z, weight, mean = ctx.saved_tensors
        power, groups, c = ctx.power, ctx.groups, ctx.c
        scale, gradient = power.scale().to(y.dtype), gradient.contiguous()
        of_y, of_z, of_weight = torch.zeros_like(y), torch.zeros_like(z), torch.zeros_like(weight)
        sums = torch.zeros(y.shape[2], dtype=torch.float64)
        for (h, rows), (first, last, _) in zip(_edge_chunks(y, z, power, c, groups), groups.chunks(), strict=True):
            of_weight.addmm_(gradient[rows].flatten(0, 1).T, h.flatten(0, 1))
            of_edge, slopes = times(gradient[rows], weight.T), y.new_empty(last - first, y.shape[2])
            where = (groups.neighbour, groups.start, first, last)
            run_loop("group_loops", "edge_backward", y, z, *where, scale, c, of_edge, slopes)
            run_loop("group_loops", "add_to_ends", of_edge, *where, of_y, of_z)
            sums += slopes.double().sum(0)
        of_mean = power.pull(sums)
        if power.count:
            extra = power.share(of_mean).to(y.dtype)
            run_loop("group_loops", "edge_spread", y, z, groups.neighbour, groups.start, groups.weight, extra, of_y, of_z)
        return of_y, of_z, of_weight, None if power.count else of_mean.to(mean.dtype), None, None, None


def _edge_chunks(y: Tensor, z: Tensor, power: Power, c: float, groups: Groups) -> Any:
    """h = ReLU(s·(y_j + z_i)) and its rows, a chunk at a time; each overwrites the one before."""
    scale, buffer = power.scale().to(y.dtype), y.new_empty(groups.widest(), 3, y.shape[2])
    for first, last, rows in groups.chunks():
        h = buffer[: rows.stop - rows.start]
        run_loop("group_loops", "edge_relu", y, z, groups.neighbour, groups.start, first, last, scale, c, h)
        yield h, rows


def _row_chunks(x: Tensor, power: Power, c: float, groups: Groups) -> Any:
    """h = ReLU(s·x) and its rows, a chunk at a time; each overwrites the one before."""
    scale, buffer = power.scale().to(x.dtype), x.new_empty(groups.widest(), *x.shape[1:])
    for _, _, rows in groups.chunks():
        h = buffer[: rows.stop - rows.start]
        run_loop("row_loops", "forward", x[rows], scale, c, h)
        yield h, rows


def edge_linear(y: Tensor, z: Tensor, weight: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    """W·ReLU(s·(y_j + z_i)) for every row. Shapes: y (M, 3, C), z (P, 3, C), weight (O, C) → (R, 3, O)."""
    out: Tensor = _EdgeLinear.apply(y, z, weight, power.mean, power, c, groups)
    return out


def edge_power(y: Tensor, z: Tensor, groups: Groups) -> Tensor:
    """Σ ‖y_j + z_i‖² over all rows, with their weights: (C,) float64, without a gradient."""
    sums = torch.empty(-(-groups.centres // CENTRES), y.shape[2], dtype=torch.float64)
    run_loop("group_loops", "edge_power", y, z, groups.neighbour, groups.start, groups.weight, sums)
    return sums.sum(0)


def row_power(x: Tensor, groups: Groups) -> Tensor:
    """Σ ‖x‖² over all rows (R, 3, C), with their weights: (C,) float64, without a gradient."""
    sums = block_sums(x)
    run_loop("group_loops", "power", x, groups.weight, sums)
    return sums.sum(0)


class _Pull:
    """The way back through ReLU(s·x) for rows that are filled in a chunk at a time."""

    def __init__(self, x: Tensor, power: Power, c: float, groups: Groups) -> None:
        self.x, self.power, self.c, self.groups = x, power, c, groups
        self.scale = power.scale().to(x.dtype)
        self.out = torch.empty_like(x)
        self.slopes = torch.zeros(x.shape[2], dtype=torch.float64)

    def measure(self, rows: slice) -> None:
        """Take these rows of `out`, which hold the gradient of ReLU(s·x), into the derivative by s."""
        sums = block_sums(self.x[rows])
        run_loop("row_loops", "slopes", self.x[rows], self.scale, self.c, self.out[rows], sums)
        self.slopes += sums.sum(0)

    def finish(self, mean: Tensor) -> tuple[Tensor, Tensor | None]:
        """The gradient by x, in place of the one by ReLU(s·x), and the one by the mean, where it is wanted."""
        of_mean = self.power.pull(self.slopes)
        extra = torch.zeros_like(self.scale)
        if self.power.count:
            extra = self.power.share(of_mean).to(self.x.dtype)
        run_loop("group_loops", "backward", self.x, self.scale, self.c, self.out, extra, self.groups.weight, self.out)
        return self.out, None if self.power.count else of_mean.to(mean.dtype)


class _RowLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
        ctx.save_for_backward(x, weight, mean)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        out = x.new_empty(groups.rows, 3, weight.shape[0])
        for h, rows in _row_chunks(x, power, c, groups):
            torch.mm(h.flatten(0, 1), weight.T, out=out[rows].flatten(0, 1))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        x, weight, mean = ctx.saved_tensors
        gradient, of_weight = gradient.contiguous(), torch.zeros_like(weight)
        pull = _Pull(x, ctx.power, ctx.c, ctx.groups)
        for h, rows in _row_chunks(x, ctx.power, ctx.c, ctx.groups):
            of_weight.addmm_(gradient[rows].flatten(0, 1).T, h.flatten(0, 1))
            pull.out[rows] = times(gradient[rows], weight.T)
            pull.measure(rows)
        of_x, of_mean = pull.finish(mean)
        return of_x, of_weight, of_mean, None, None, None


def row_linear(x: Tensor, weight: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    """W·ReLU(s·x) for every row. Shapes: x (R, 3, C), weight (O, C) → (R, 3, O)."""
    out: Tensor = _RowLinear.apply(x, weight, power.mean, power, c, groups)
    return out


class _LongestLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups
    ) -> tuple[Tensor, Tensor]:
        shape = (groups.centres, weight.shape[0])
        winner, out = torch.empty(shape, dtype=torch.int32), x.new_empty(shape[0], 3, shape[1])
        sums = x.new_empty(shape)
        for (h, _), (first, last, _) in zip(_row_chunks(x, power, c, groups), groups.chunks(), strict=True):
            found = (winner[first:last], out[first:last], sums[first:last])
            run_loop("group_loops", "longest", times(h, weight), groups.start, groups.weight, first, *found)
        ctx.save_for_backward(x, weight, mean, winner)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        return out, sums.double().sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, of_sums: Tensor) -> tuple:
        x, weight, mean, winner = ctx.saved_tensors
        groups: Groups = ctx.groups
        pull, gradient = _Pull(x, ctx.power, ctx.c, groups), gradient.contiguous()
        tilted = weight * (2 * of_sums).to(x.dtype)[:, None]
        square = weight.T @ tilted  # Wᵀ t W
        gram, partial = torch.zeros_like(square), x.new_zeros(TASKS, *weight.shape)
        for (h, rows), (first, last, _) in zip(_row_chunks(x, ctx.power, ctx.c, groups), groups.chunks(), strict=True):
            flat, of_h = h.flatten(0, 1), pull.out[rows]
            gram.addmm_(flat.T, flat)
            heavy = groups.start[first:last] - rows.start  # the first row of a ball that is not full counts more than once
            excess = (groups.weight[groups.start[first:last]] - 1)[:, None, None]
            gram.addmm_((h[heavy] * excess).flatten(0, 1).T, h[heavy].flatten(0, 1))
            torch.mm(flat, square, out=of_h.flatten(0, 1))
            given = (winner[first:last], gradient[first:last], of_h, partial)
            run_loop("group_loops", "winners_backward", h, weight, groups.start, groups.weight, first, *given)
            pull.measure(rows)
        of_x, of_mean = pull.finish(mean)
        return of_x, partial.sum(0) + tilted @ gram, of_mean, None, None, None


def longest_linear(x: Tensor, weight: Tensor, power: Power, c: float, groups: Groups) -> tuple[Tensor, Tensor]:
    """The longest row of W·ReLU(s·x) in each group and channel, and Σ‖W·ReLU(s·x)‖² over all rows.

    Shapes: x (R, 3, C), weight (O, C) → (P, 3, O), (O,) float64
    """
    out: tuple[Tensor, Tensor] = _LongestLinear.apply(x, weight, power.mean, power, c, groups)
    return out


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, mean: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
        ctx.save_for_backward(x, w, mean)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        size = groups.rows // groups.centres
        out = x.new_empty(groups.centres, x.shape[1] * x.shape[2], w.shape[1])
        for (h, rows), (first, last, _) in zip(_row_chunks(x, power, c, groups), groups.chunks(), strict=True):
            torch.bmm(h.view(-1, size, out.shape[1]).mT, w[rows].view(-1, size, w.shape[1]), out=out[first:last])
        return out.view(groups.centres, 3, x.shape[2], w.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        x, w, mean = ctx.saved_tensors
        groups: Groups = ctx.groups
        pull, of_w = _Pull(x, ctx.power, ctx.c, groups), torch.empty_like(w)
        size, gradient = groups.rows // groups.centres, gradient.flatten(1, 2)
        for (h, rows), (first, last, _) in zip(_row_chunks(x, ctx.power, ctx.c, groups), groups.chunks(), strict=True):
            given = gradient[first:last]
            torch.bmm(h.view(-1, size, h[0].numel()), given, out=of_w[rows].view(-1, size, w.shape[1]))
            torch.bmm(w[rows].view(-1, size, w.shape[1]), given.mT, out=pull.out[rows].view(-1, size, h[0].numel()))
            pull.measure(rows)
        of_x, of_mean = pull.finish(mean)
        return of_x, of_w, of_mean, None, None, None


def weighted_sum(x: Tensor, w: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    """Σ_j ReLU(s·x_j) ⊗ w_j over each group, all groups of one size. Shapes: x (R, 3, C), w (R, W) → (P, 3, C, W)."""
    out: Tensor = _WeightedSum.apply(x, w, power.mean, power, c, groups)
    return out
