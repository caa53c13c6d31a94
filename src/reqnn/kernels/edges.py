"""Layers on groups of neighbours, each with its derivative by hand, for features e = y_j + z_i that are never stored.

    linear          W·ReLU(s·e)
    total           the sum of two ReLU(s·e)
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

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import edge_loops, tied
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.power import Power
from reqnn.kernels.products import add_outer, times
from reqnn.kernels.rows import relu, relu_reference
from reqnn.kernels.run import loops_run_on, run
from reqnn.memory import fresh

CENTRES = 16  # groups that are summed up before sums are added in float64
NARROWEST = 16  # strip of channels that a task owns
TASKS = 8  # partial sums of a weight gradient: a fixed number, so that the result does not depend on the threads


def rows(y: Tensor, z: Tensor | None, groups: Groups) -> Tensor:
    """e of every row, stored: (R, 3, C)."""
    return y if z is None else y[groups.neighbour] + z[groups.centre]


def total_power(y: Tensor, z: Tensor | None, groups: Groups) -> Tensor:
    """Σ ‖e‖² over all places: (C,) float64, without a gradient."""
    if not loops_run_on(y):
        return (rows(y, z, groups).detach().square().sum(1) * groups.weight[:, None]).sum(0).double()
    sums = torch.empty(-(-groups.centres // CENTRES), y.shape[2], dtype=torch.float64)
    run(edge_loops.power, y, or_empty(y, z), *groups.weighted, sums)
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


def or_empty(y: Tensor, z: Tensor | None) -> Tensor:
    """z as loops want it."""
    return y.new_empty(0, *y.shape[1:]) if z is None else z


Rows = Iterable[tuple[Tensor, Chunk]]
"""Rows of all groups, (rows, 3, C) of a chunk at a time."""


def chunks_of(y: Tensor, z: Tensor | None, power: Power, c: float, groups: Groups) -> Callable[[Chunk], Tensor]:
    """ReLU(s·e) of any chunk of rows, without gradients."""
    scale, y, z = power.scale().to(y.dtype), y.detach(), or_empty(y, z).detach()

    def relu_of(chunk: Chunk) -> Tensor:
        out = y.new_empty(len(chunk), 3, y.shape[2])
        run(edge_loops.relu, y, z, *chunk.of(groups).where, scale, c, out)
        return out

    return relu_of


def _chunks(y: Tensor, z: Tensor, power: Power, c: float, groups: Groups) -> Rows:
    """h = ReLU(s·e) of all rows."""
    h = chunks_of(y, z, power, c, groups)
    return ((h(chunk), chunk) for chunk in groups.chunks())


def joined(rows: Rows, out: Tensor, groups: Groups, sums: Tensor | None = None) -> Tensor:
    """Write all rows that are not there yet to `out` (R, 3, C); their Σ‖x‖² over all places is added to `sums` (C,) float64."""
    for x, chunk in rows:
        here = out[chunk.part]
        if x.data_ptr() != here.data_ptr():
            here.copy_(x)
        if sums is not None:
            found = x.new_empty(chunk.last - chunk.first, x.shape[2])
            start = groups.start[chunk.first : chunk.last + 1] - chunk.part.start
            run(edge_loops.power, x, x[:0], groups.neighbour, start, groups.weight[chunk.part], found)
            sums += found.double().sum(0)
    return out


class Ends:
    """Gradients of edges, a chunk of rows at a time, on their way to y and z."""

    def __init__(self, y: Tensor, z: Tensor) -> None:
        self.y, self.z, self.gathered = y.detach(), z.detach(), len(z) > 0
        self.of_y = torch.zeros_like(y) if self.gathered else fresh(y, *y.shape)
        self.of_z = torch.zeros_like(z)

    def room(self, chunk: Chunk) -> Tensor:
        """Where the gradient of these rows is to be written."""
        return self.y.new_empty(len(chunk), *self.y.shape[1:]) if self.gathered else self.of_y[chunk.part]

    def take(self, of_e: Tensor, chunk: Chunk) -> None:
        """Pass a chunk on."""
        if self.gathered:
            run(edge_loops.add_to_ends, of_e, *chunk.where, self.of_y, self.of_z)


class _Pull(Ends):
    """The way back through ReLU(s·e), a chunk of rows at a time, to y, z and the statistic."""

    def __init__(self, y: Tensor, z: Tensor, power: Power, c: float, groups: Groups) -> None:
        super().__init__(y, z)
        self.power, self.c, self.scale = power, c, power.scale().to(y.dtype)
        self.slopes = y.new_empty(groups.centres, y.shape[2])

    def take(self, of_h: Tensor, chunk: Chunk, share: float = 1.0) -> None:
        """Pass the gradient of h, `share` times of_h, on."""
        strips = min(torch.get_num_threads(), -(-self.y.shape[2] // NARROWEST))
        to = (self.of_y if self.gathered else self.of_y[chunk.part], self.of_z, self.slopes)
        run(edge_loops.relu_back, self.y, self.z, *chunk.where, self.scale, self.c, of_h, share, strips, *to)

    def finish(self, mean: Tensor, groups: Groups, *of_weight: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of y, z, the weight if there is one, and the mean."""
        of_mean = self.power.pull(self.slopes.sum(0, dtype=torch.float64))
        if not self.power.count:
            return self.of_y, self.of_z, *of_weight, of_mean.to(mean.dtype)
        extra = self.power.share(of_mean).to(self.y.dtype)
        if self.gathered:
            run(edge_loops.spread, self.y, self.z, *groups.weighted, extra, self.of_y, self.of_z)
        else:
            self.of_y.addcmul_(self.y, extra * groups.weight[:, None, None] if groups.padded else extra)
        return self.of_y, self.of_z, *of_weight, None


def product(rows: Rows, weight: Tensor, groups: Groups, sums: Tensor | None = None) -> Tensor:
    """W·h of all rows, (R, 3, O); `sums` as in `joined`."""
    out = fresh(weight, groups.rows, 3, len(weight))
    return joined(((times(h, weight, out[chunk.part]), chunk) for h, chunk in rows), out, groups, sums)


def product_back(gradient: Tensor, rows: Rows, weight: Tensor, pull: Any) -> Tensor:
    """The way back through `product`: the gradient of W; that of h is passed to `pull`."""
    of_weight, back = torch.zeros_like(weight), weight.T.contiguous()
    for h, chunk in rows:
        given = gradient[chunk.part]
        add_outer(of_weight, given, h)
        pull.take(times(given, back), chunk)
    return of_weight


def _linear(
    y: Tensor, z: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups, sums: Tensor | None
) -> Tensor:
    return product(_chunks(y, z, power, c, groups), weight, groups, sums)


def _linear_back(gradient: Tensor, *saved: Any) -> tuple:
    y, z, weight, mean, power, c, groups, _ = saved
    pull = _Pull(y, z, power, c, groups)
    of_weight = product_back(gradient, _chunks(y, z, power, c, groups), weight, pull)
    return pull.finish(mean, groups, of_weight)


def linear(
    y: Tensor, z: Tensor | None, weight: Tensor, power: Power, c: float, groups: Groups, sums: Tensor | None = None
) -> Tensor:
    """W·ReLU(s·e) of every row; its Σ‖·‖² over all places is added to `sums` (O,) float64. Shapes: weight (O, C) → (R, 3, O)"""
    if not loops_run_on(y):
        out = activated(y, z, power, c, groups) @ weight.T
        if sums is not None:
            sums += total_power(out, None, groups)
        return out
    tensors = (y, or_empty(y, z), weight, power.mean)
    product: Tensor = by_hand(_linear, _linear_back, tensors, power, c, groups, sums)
    return product


Activated = tuple[Tensor, Tensor | None, Groups, Power, float]
"""y, z, groups, power and c of ReLU(s·e)."""


def _total(*inputs: Any) -> Tensor:
    y, z, _, v, w, _, (groups, power, c), (others, scale, bound), factor = inputs
    one, two = chunks_of(y, z, power, c, groups), chunks_of(v, w, scale, bound, others)
    out = fresh(y, groups.rows, *y.shape[1:])
    for chunk in groups.chunks():
        torch.add(one(chunk), two(chunk), alpha=factor, out=out[chunk.part])
    return out


def _total_back(gradient: Tensor, *saved: Any) -> tuple:
    y, z, mean, v, w, average, (groups, power, c), (others, scale, bound), factor = saved
    one, two = _Pull(y, z, power, c, groups), _Pull(v, w, scale, bound, others)
    for chunk in groups.chunks():
        for pull, its, share in ((one, groups, 1.0), (two, others, factor)):
            pull.take(gradient[chunk.part], chunk.of(its), share)
    return *one.finish(mean, groups), *two.finish(average, others)


def total(a: Activated, b: Activated, factor: float) -> Tensor:
    """ReLU(s·e) + factor·ReLU(s′·e′) of every row, for the same groups: (R, 3, C)."""
    if not loops_run_on(a[0]):
        one, two = (activated(y, z, power, c, groups) for y, z, groups, power, c in (a, b))
        return one + factor * two
    tensors = tuple(x for y, z, _, power, _ in (a, b) for x in (y, or_empty(y, z), power.mean))
    out: Tensor = by_hand(_total, _total_back, tensors, a[2:], b[2:], factor)
    return out


def _longest(y: Tensor, z: Tensor, groups: Groups, measured: bool) -> tuple[Tensor, Tensor, Tensor]:
    winner, edge = torch.empty(z.shape[0], z.shape[2], dtype=torch.int32), torch.empty_like(z)
    sums = torch.zeros(-(-z.shape[0] // 64), z.shape[2], dtype=torch.float64)
    run(edge_loops.longest, y, z, *groups.weighted, measured, winner, edge, sums)
    return edge, sums.sum(0), winner


def _longest_back(
    of_edge: Tensor, of_sums: Tensor, y: Tensor, z: Tensor, winner: Tensor, groups: Groups, measured: bool
) -> tuple:
    of_y, of_z = torch.zeros_like(y), of_edge.clone()  # the loop adds to them
    slope = (2 * of_sums).to(z.dtype)
    run(edge_loops.longest_back, y, z, *groups.weighted, winner, of_edge, slope, measured, of_y, of_z)
    return of_y, of_z


def longest(y: Tensor, z: Tensor | None, groups: Groups, measured: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The longest e of each group and channel, Σ‖e‖² over all places if measured, and the winner's place in its group.

    Shapes: → (P, 3, C), (C,) float64, (P, C) int64
    """
    if not loops_run_on(y):
        return _longest_reference(rows(y, z, groups), groups)
    z = y.new_zeros(groups.centres, *y.shape[1:]) if z is None else z
    edge, sums, winner = by_hand(_longest, _longest_back, (y, z), groups, measured)
    return edge, sums, groups.places_of(tied.first(winner))


def _longest_reference(e: Tensor, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """Of rows (R, 3, C), for groups without removed padding."""
    grouped = e[groups.place].movedim(2, 0)  # (3, P, K, C)
    chosen, winner = tied.longest(grouped, 1)
    return chosen.movedim(0, 1), grouped.square().sum((0, 1, 2)).double(), winner


def search(rows: Rows, groups: Groups, out: Tensor) -> tuple[Tensor, Tensor]:
    """Find the longest of rows (R, 3, C) without gradients: out (P, 3, C) is filled with them.

    Returns Σ‖·‖² over all places, and the winners, counted from the first row of their group.
    """
    shape = (groups.centres, out.shape[2])
    winner, sums = torch.empty(shape, dtype=torch.int32), out.new_empty(shape)
    for x, chunk in rows:
        found = (whole[chunk.centres] for whole in (winner, out, sums))
        run(edge_loops.longest_rows, x, groups.start, groups.weight, chunk.first, *found)
    return sums.double().sum(0), winner


def _longest_linear(
    y: Tensor, z: Tensor, weight: Tensor, mean: Tensor, power: Power, c: float, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    products = ((times(h, weight), chunk) for h, chunk in _chunks(y, z, power, c, groups))
    out = y.new_empty(groups.centres, 3, weight.shape[0])
    return out, *search(products, groups, out)


def _longest_linear_back(of_out: Tensor, of_sums: Tensor, *saved: Any) -> tuple:
    y, z, weight, mean, winner, power, c, groups = saved
    pull, tilted = _Pull(y, z, power, c, groups), weight * (2 * of_sums).to(y.dtype)[:, None]
    square = weight.T @ tilted  # Wᵀ t W, symmetric
    gram, partial = torch.zeros_like(square), y.new_zeros(TASKS, *weight.shape)
    for h, chunk in _chunks(y, z, power, c, groups):
        firsts = groups.start[chunk.centres]
        add_outer(gram, h, h)
        if groups.padded:  # the first row of a group that is not full counts more than once
            heavy = h[firsts - chunk.part.start]
            add_outer(gram, heavy * (groups.weight[firsts] - 1)[:, None, None], heavy)
        of_h = times(h, square)
        given = (winner[chunk.centres], of_out[chunk.centres], of_h, partial)
        run(edge_loops.longest_rows_back, h, weight, groups.start, groups.weight, chunk.first, *given)
        pull.take(of_h, chunk)
    return pull.finish(mean, groups, partial.sum(0) + tilted @ gram)


def longest_linear(
    y: Tensor, z: Tensor | None, weight: Tensor, power: Power, c: float, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    """The longest W·ReLU(s·e) of each group and channel, Σ‖W·ReLU(s·e)‖² over all places, the winner's place in its group.

    Shapes: weight (O, C) → (P, 3, O), (O,) float64, (P, O) int64
    """
    if not loops_run_on(y):
        return _longest_reference(activated(y, z, power, c, groups) @ weight.T, groups)
    tensors = (y, or_empty(y, z), weight, power.mean)
    out, sums, winner = by_hand(_longest_linear, _longest_linear_back, tensors, power, c, groups)
    return out, sums, groups.places_of(tied.first(winner))


def summed_outer(rows: Rows, w: Tensor, groups: Groups) -> Tensor:
    """Σ_j h_j ⊗ w_j over each group, without gradients. Shapes: h (rows, *), w (P, K, W) → (P, *, W)"""
    out: Tensor | None = None
    for h, chunk in rows:
        if out is None:
            out = h.new_empty(groups.centres, *h.shape[1:], w.shape[2])
        summed_outer_of(h, w, out, chunk)
    assert out is not None
    return out


def summed_outer_of(h: Tensor, w: Tensor, out: Tensor, chunk: Chunk) -> None:
    """`summed_outer` of one chunk, written to its centres in `out`."""
    torch.bmm(_of_centres(h, chunk).mT, w[chunk.centres], out=out[chunk.centres].flatten(1, -2))


def _of_centres(h: Tensor, chunk: Chunk) -> Tensor:
    """Rows (rows, *) as (centres, K, numbers of a row)."""
    return h.view(-1, chunk.groups.size, h[0].numel())


def summed_outer_back(gradient: Tensor, h: Tensor, w: Tensor, of_w: Tensor, of_h: Tensor, chunk: Chunk) -> Tensor:
    """The derivative of `summed_outer` for a chunk: added to of_w, written to of_h (rows, *), which is returned."""
    given = gradient[chunk.centres].flatten(1, -2)
    of_w[chunk.centres].baddbmm_(_of_centres(h, chunk), given)
    torch.bmm(w[chunk.centres], given.mT, out=_of_centres(of_h, chunk))
    return of_h


def _outer_sum(y: Tensor, z: Tensor, w: Tensor, mean: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    return summed_outer(_chunks(y, z, power, c, groups), w, groups)


def _outer_sum_back(
    gradient: Tensor, y: Tensor, z: Tensor, w: Tensor, mean: Tensor, power: Power, c: float, groups: Groups
) -> tuple:
    pull, of_w = _Pull(y, z, power, c, groups), torch.zeros_like(w)
    for h, chunk in _chunks(y, z, power, c, groups):
        pull.take(summed_outer_back(gradient, h, w, of_w, torch.empty_like(h), chunk), chunk)
    return pull.finish(mean, groups, of_w)


def outer_sum(y: Tensor, z: Tensor | None, w: Tensor, power: Power, c: float, groups: Groups) -> Tensor:
    """Σ_j ReLU(s·e_j) ⊗ w_j over each group, for groups without removed padding. Shapes: w (P, K, W) → (P, 3, C, W)"""
    if not loops_run_on(y):
        return torch.einsum("pkdc,pkw->pdcw", activated(y, z, power, c, groups)[groups.place], w)
    tensors = (y, or_empty(y, z), w.contiguous(), power.mean)
    out: Tensor = by_hand(_outer_sum, _outer_sum_back, tensors, power, c, groups)
    return out


def _weighted_sum(y: Tensor, w: Tensor, index: Tensor) -> Tensor:
    out = y.new_empty(index.shape[0], y.shape[1])
    run(edge_loops.weighted, y, index, w, out)
    return out


def _weighted_sum_back(gradient: Tensor, y: Tensor, w: Tensor, index: Tensor) -> tuple:
    of_y, of_w = None, None
    if y.requires_grad:
        of_y = torch.zeros_like(y)
        run(edge_loops.weighted_back_y, index, w, gradient, of_y)
    if w.requires_grad:
        of_w = torch.empty_like(w)
        run(edge_loops.weighted_back_w, y, index, gradient, of_w)
    return of_y, of_w


def weighted_sum(y: Tensor, index: Tensor, w: Tensor) -> Tensor:
    """Σ_k w[i, k]·y[index[i, k]]. Shapes: y (M, *), index and w (P, K) → (P, *)"""
    if not loops_run_on(y):
        return (y[index] * w.reshape(*w.shape, *[1] * (y.dim() - 1))).sum(1)
    tensors = (y.flatten(1).contiguous(), w.contiguous())
    out: Tensor = by_hand(_weighted_sum, _weighted_sum_back, tensors, index.contiguous())
    return out.unflatten(1, y.shape[1:])
