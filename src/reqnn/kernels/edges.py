"""Layers on groups of neighbours, each with its derivative by hand, for features e = y_j + z_i that are never stored.

    linear          W·ReLU(s·e)
    longest         the longest e of each group, and Σ‖e‖² of all
    longest_linear  the longest W·ReLU(s·e) of each group, and Σ‖·‖² of all: the product is not stored
    outer_sum       Σ_j ReLU(s·e_j) ⊗ w_j over each group
    weighted_sum    Σ_j w_j·y_j over each group

y holds what depends on the neighbour j and z what depends on the centre i. After the first layer there is a row per edge and no
gather any more: z is None then, and e = y. All work through some thousand rows at a time, so that what one step leaves in the
cache the next finds there; what the backward pass needs of h = ReLU(s·e) is computed again. Only winners have a gradient in
`longest_linear`. The statistic of all rows, Σ_r ‖W·h_r‖², has one at every row, but no product with W is needed for it: with
G = Σ_r h_r h_rᵀ and a gradient t of the statistic, ∂W = 2·t·W·G and ∂h_r = 2·h_r·(Wᵀ t W).

Every function has its plain-torch twin (`_reference`): its oracle, and what runs on other devices.

Shapes:
    y: (M, 3, C); z: (P, 3, C) or None; groups: P centres, R rows, K places per centre
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reqnn.kernels import edge_loops
from reqnn.kernels.groups import Groups
from reqnn.kernels.power import Power
from reqnn.kernels.products import outer, times
from reqnn.kernels.rows import relu, relu_reference
from reqnn.kernels.run import loops_run_on, run

CENTRES = 16  # groups that are summed up before sums are added in float64
TASKS = 8  # partial sums of a weight gradient: a fixed number, so that the result does not depend on the threads


def rows(y: Tensor, z: Tensor | None, groups: Groups) -> Tensor:
    """e of every row, stored: (R, 3, C)."""
    return y if z is None else y[groups.neighbour] + z[groups.centre]


def total_power(y: Tensor, z: Tensor | None, groups: Groups) -> Tensor:
    """Σ ‖e‖² over all places: (C,) float64, without a gradient."""
    if not loops_run_on(y):
        return (rows(y, z, groups).detach().square().sum(1) * groups.weight[:, None]).sum(0).double()
    sums = torch.empty(-(-groups.centres // CENTRES), y.shape[2], dtype=torch.float64)
    run(edge_loops.power, y, _or_empty(y, z), groups.neighbour, groups.start, groups.weight, sums)
    return sums.sum(0)


def activated(y: Tensor, z: Tensor | None, power: Power, c: float, groups: Groups) -> Tensor:
    """ReLU(s·e) of every row: (R, 3, C)."""
    e = rows(y, z, groups)
    if loops_run_on(e) and not groups.padded:
        return relu(e, power, c)
    if power.count:
        sums = (e.square().sum(1) * groups.weight[:, None]).sum(0)
        return relu_reference(e, (power.reduce(sums) / power.count + power.eps).rsqrt(), c)
    return relu_reference(e, power.scale().to(e.dtype), c)


def _or_empty(y: Tensor, z: Tensor | None) -> Tensor:
    return y.new_empty(0, *y.shape[1:]) if z is None else z


def _chunks(y: Tensor, z: Tensor, power: Power, c: float, groups: Groups) -> Iterator[tuple[Tensor, int, int, slice]]:
    """h = ReLU(s·e) of a chunk of rows and its centres; each overwrites the one before."""
    scale, buffer = power.scale().to(y.dtype), y.new_empty(groups.widest(), 3, y.shape[2])
    for first, last, part in groups.chunks():
        h = buffer[: part.stop - part.start]
        run(edge_loops.relu, y, z, groups.neighbour, groups.start, first, last, scale, c, h)
        yield h, first, last, part


class _Pull:
    """The way back through ReLU(s·e), a chunk of rows at a time, to y, z and the statistic."""

    def __init__(self, y: Tensor, z: Tensor, power: Power, c: float, groups: Groups) -> None:
        self.y, self.z, self.power, self.c, self.groups = y, z, power, c, groups
        self.gathered = len(z) > 0
        self.scale = power.scale().to(y.dtype)
        self.of_y = torch.zeros_like(y) if self.gathered else torch.empty_like(y)
        self.of_z = torch.zeros_like(z)
        self.slopes = torch.zeros(y.shape[2], dtype=torch.float64)

    def room(self, part: slice) -> Tensor:
        """Where the gradient of h of these rows is to be written."""
        return self.y.new_empty(part.stop - part.start, *self.y.shape[1:]) if self.gathered else self.of_y[part]

    def take(self, of_h: Tensor, first: int, last: int) -> None:
        """Pass a chunk on; it is overwritten."""
        slopes, where = self.y.new_empty(last - first, self.y.shape[2]), (self.groups.neighbour, self.groups.start, first, last)
        run(edge_loops.relu_back, self.y, self.z, *where, self.scale, self.c, of_h, slopes)
        self.slopes += slopes.double().sum(0)
        if self.gathered:
            run(edge_loops.add_to_ends, of_h, *where, self.of_y, self.of_z)

    def finish(self, mean: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of y, z and the mean."""
        groups, of_mean = self.groups, self.power.pull(self.slopes)
        if self.power.count:
            extra = self.power.share(of_mean).to(self.y.dtype)
            where = (groups.neighbour, groups.start, groups.weight)
            if self.gathered:
                run(edge_loops.spread, self.y, self.z, *where, extra, self.of_y, self.of_z)
            else:
                self.of_y.addcmul_(self.y, extra * groups.weight[:, None, None] if groups.padded else extra)
        return self.of_y, self.of_z, None if self.power.count else of_mean.to(mean.dtype)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
        ctx.save_for_backward(y, z, weight, mean)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        out = y.new_empty(groups.rows, 3, weight.shape[0])
        for h, _, _, part in _chunks(y, z, power, c, groups):
            out[part] = times(h, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        y, z, weight, mean = ctx.saved_tensors
        pull = _Pull(y, z, ctx.power, ctx.c, ctx.groups)
        gradient, of_weight = gradient.contiguous(), torch.zeros_like(weight)
        for h, first, last, part in _chunks(y, z, ctx.power, ctx.c, ctx.groups):
            of_h = pull.room(part)
            of_weight += outer(gradient[part], h)
            of_h.copy_(times(gradient[part], weight.T))
            pull.take(of_h, first, last)
        of_y, of_z, of_mean = pull.finish(mean)
        return of_y, of_z, of_weight, of_mean, None, None, None


def linear(y: Tensor, z: Tensor | None, weight: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    """W·ReLU(s·e) of every row. Shapes: weight (O, C) → (R, 3, O)"""
    if not loops_run_on(y):
        return activated(y, z, power, c, groups) @ weight.T
    out: Tensor = _Linear.apply(y, _or_empty(y, z), weight, power.mean, power, c, groups)
    return out


class _Longest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, groups: Groups, measured: bool) -> tuple[Tensor, Tensor, Tensor]:
        winner, edge = torch.empty(z.shape[0], z.shape[2], dtype=torch.int32), torch.empty_like(z)
        sums = torch.zeros(-(-z.shape[0] // 64), z.shape[2], dtype=torch.float64)
        run(edge_loops.longest, y, z, groups.neighbour, groups.start, groups.weight, measured, winner, edge, sums)
        ctx.save_for_backward(y, z, winner)
        ctx.groups, ctx.measured = groups, measured
        ctx.mark_non_differentiable(winner)
        ctx.set_materialize_grads(False)
        return edge, sums.sum(0), winner

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        y, z, winner = ctx.saved_tensors
        groups, (of_edge, of_sums, _) = ctx.groups, gradients
        of_edge = torch.zeros_like(z) if of_edge is None else of_edge.contiguous()
        slope = z.new_zeros(z.shape[2]) if of_sums is None else (2 * of_sums).to(z.dtype)
        of_y, of_z = torch.zeros_like(y), of_edge.clone()  # the loop adds to them
        where = (groups.neighbour, groups.start, groups.weight)
        run(edge_loops.longest_back, y, z, *where, winner, of_edge, slope, of_sums is not None, of_y, of_z)
        return of_y, of_z, None, None


def longest(y: Tensor, z: Tensor | None, groups: Groups, measured: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The longest e of each group and channel, Σ‖e‖² over all places if measured, and the winner's place in its group.

    Shapes: → (P, 3, C), (C,) float64, (P, C) int64
    """
    if not loops_run_on(y):
        return _longest_reference(rows(y, z, groups), groups)
    z = y.new_zeros(groups.centres, *y.shape[1:]) if z is None else z
    edge, sums, winner = _Longest.apply(y, z, groups, measured)
    return edge, sums, groups.places_of(winner)


def _longest_reference(e: Tensor, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """Of rows (R, 3, C), for groups without removed padding."""
    grouped = e[groups.place]  # (P, K, 3, C)
    lengths = grouped.square().sum(2)
    winner = lengths.argmax(1)
    chosen = grouped.gather(1, winner[:, None, None].expand(-1, 1, *grouped.shape[2:])).squeeze(1)
    return chosen, lengths.sum((0, 1)).double(), winner


class _LongestLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y: Tensor, z: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups
    ) -> tuple[Tensor, Tensor, Tensor]:
        shape = (groups.centres, weight.shape[0])
        winner, out = torch.empty(shape, dtype=torch.int32), y.new_empty(shape[0], 3, shape[1])
        sums = y.new_empty(shape)
        for h, first, last, _ in _chunks(y, z, power, c, groups):
            found = (winner[first:last], out[first:last], sums[first:last])
            run(edge_loops.longest_rows, times(h, weight), groups.start, groups.weight, first, *found)
        ctx.save_for_backward(y, z, weight, mean, winner)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        ctx.mark_non_differentiable(winner)
        return out, sums.double().sum(0), winner

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        y, z, weight, mean, winner = ctx.saved_tensors
        groups: Groups = ctx.groups
        pull, gradient = _Pull(y, z, ctx.power, ctx.c, groups), gradients[0].contiguous()
        tilted = weight * (2 * gradients[1]).to(y.dtype)[:, None]
        square = weight.T @ tilted  # Wᵀ t W
        gram, partial = torch.zeros_like(square), y.new_zeros(TASKS, *weight.shape)
        for h, first, last, part in _chunks(y, z, ctx.power, ctx.c, groups):
            of_h = pull.room(part)
            gram += outer(h, h)
            if groups.padded:  # the first row of a group that is not full counts more than once
                heavy = groups.start[first:last] - part.start
                excess = (groups.weight[groups.start[first:last]] - 1)[:, None, None]
                gram += outer(h[heavy] * excess, h[heavy])
            of_h.copy_(times(h, square.T))
            given = (winner[first:last], gradient[first:last], of_h, partial)
            run(edge_loops.longest_rows_back, h, weight, groups.start, groups.weight, first, *given)
            pull.take(of_h, first, last)
        of_y, of_z, of_mean = pull.finish(mean)
        return of_y, of_z, partial.sum(0) + tilted @ gram, of_mean, None, None, None


def longest_linear(
    y: Tensor, z: Tensor | None, weight: Tensor, power: Power, c: float, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    """The longest W·ReLU(s·e) of each group and channel, Σ‖W·ReLU(s·e)‖² over all places, the winner's place in its group.

    Shapes: weight (O, C) → (P, 3, O), (O,) float64, (P, O) int64
    """
    if not loops_run_on(y):
        return _longest_reference(activated(y, z, power, c, groups) @ weight.T, groups)
    out, sums, winner = _LongestLinear.apply(y, _or_empty(y, z), weight, power.mean, power, c, groups)
    return out, sums, groups.places_of(winner)


class _OuterSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, w: Tensor, mean: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
        ctx.save_for_backward(y, z, w, mean)
        ctx.power, ctx.c, ctx.groups = power, c, groups
        out = y.new_empty(groups.centres, y[0].numel(), w.shape[2])
        for h, first, last, _ in _chunks(y, z, power, c, groups):
            torch.bmm(h.view(-1, groups.size, out.shape[1]).mT, w[first:last], out=out[first:last])
        return out.view(groups.centres, 3, y.shape[2], w.shape[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        y, z, w, mean = ctx.saved_tensors
        groups: Groups = ctx.groups
        pull, of_w, gradient = _Pull(y, z, ctx.power, ctx.c, groups), torch.empty_like(w), gradient.flatten(1, 2)
        for h, first, last, part in _chunks(y, z, ctx.power, ctx.c, groups):
            given, of_h = gradient[first:last], pull.room(part)
            torch.bmm(h.view(-1, groups.size, h[0].numel()), given, out=of_w[first:last])
            torch.bmm(w[first:last], given.mT, out=of_h.view(-1, groups.size, h[0].numel()))
            pull.take(of_h, first, last)
        of_y, of_z, of_mean = pull.finish(mean)
        return of_y, of_z, of_w, of_mean, None, None, None


def outer_sum(y: Tensor, z: Tensor | None, w: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    """Σ_j ReLU(s·e_j) ⊗ w_j over each group, for groups without removed padding. Shapes: w (P, K, W) → (P, 3, C, W)"""
    if not loops_run_on(y):
        return torch.einsum("pkdc,pkw->pdcw", activated(y, z, power, c, groups)[groups.place], w)
    out: Tensor = _OuterSum.apply(y, _or_empty(y, z), w.contiguous(), power.mean, power, c, groups)
    return out


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, index: Tensor, w: Tensor) -> Tensor:
        out = y.new_empty(index.shape[0], y.shape[1])
        run(edge_loops.weighted, y, index, w, out)
        ctx.save_for_backward(y, index, w)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        y, index, w = ctx.saved_tensors
        gradient, of_y, of_w = gradient.contiguous(), None, None
        if ctx.needs_input_grad[0]:
            of_y = torch.zeros_like(y)
            run(edge_loops.weighted_back_y, index, w, gradient, of_y)
        if ctx.needs_input_grad[2]:
            of_w = torch.empty_like(w)
            run(edge_loops.weighted_back_w, y, index, gradient, of_w)
        return of_y, None, of_w


def weighted_sum(y: Tensor, index: Tensor, w: Tensor) -> Tensor:
    """Σ_k w[i, k]·y[index[i, k]]. Shapes: y (M, *), index and w (P, K) → (P, *)"""
    if not loops_run_on(y):
        return (y[index] * w.reshape(*w.shape, *[1] * (y.dim() - 1))).sum(1)
    out: Tensor = _WeightedSum.apply(y.flatten(1).contiguous(), index.contiguous(), w.contiguous())
    return out.unflatten(1, y.shape[1:])
