"""Vector Neurons' layers on groups of neighbours, for edges e = y_j + z_i and directions k = y′_j + z′_i that are never stored.

    lengths    Σ‖e‖ and Σ‖e‖² over all places
    activated  v = e·BN(‖e‖)/‖e‖ and its leaky ReLU along k, of every row
    linear     W times that
    mean       the mean of that over each group

Each has its derivative by hand and a plain-torch twin, its oracle and what runs on other devices; see `reqnn.kernels.edges`.

Shapes:
    y, y′: (M, 3, C); z, z′: (P, 3, C) or None; scale, shift: (C,)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import vector_loops
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.edges import CENTRES, Ends, Rows, or_empty, product, product_back, rows
from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.rows import safe_sqrt
from reqnn.kernels.run import loops_run_on, run
from reqnn.memory import fresh


def _lengths(y: Tensor, z: Tensor, groups: Groups) -> Tensor:
    sums = torch.empty(-(-groups.centres // CENTRES), 2, y.shape[2], dtype=torch.float64)
    run(vector_loops.measure, y, z, *groups.weighted, sums)
    return sums.sum(0)


def _lengths_back(gradient: Tensor, y: Tensor, z: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    ends, (of_lengths, of_squares) = Ends(y, z), gradient.to(y.dtype)
    for chunk in groups.chunks():
        of_e = ends.room(chunk)
        run(vector_loops.measure_back, y, z, *groups.weighted, chunk.first, chunk.last, of_lengths, of_squares, of_e)
        ends.take(of_e, chunk)
    return ends.of_y, ends.of_z


def lengths(y: Tensor, z: Tensor | None, groups: Groups) -> Tensor:
    """Σ‖e‖ and Σ‖e‖² over all places, (2, C) float64."""
    if not loops_run_on(y):
        square = rows(y, z, groups).square().sum(1).double()
        return torch.stack([(power * groups.weight[:, None]).sum(0) for power in (safe_sqrt(square), square)])
    out: Tensor = by_hand(_lengths, _lengths_back, (y, or_empty(y, z)), groups)
    return out


@dataclass(frozen=True, eq=False)
class Pending:
    """What is put off: the batch-norm on norms and the leaky ReLU along k.

    Attributes:
        scale, shift: BN(n) = scale·n + shift; None without batch-norm.
        fade: 1/‖e‖ is ‖e‖/(‖e‖² + fade).
        yk, zk: y′ and z′; yk is None without ReLU.
        slope: of the leaky ReLU.
        tiny: added to ‖k‖².
    """

    scale: Tensor | None = None
    shift: Tensor | None = None
    fade: float = 0.0
    yk: Tensor | None = None
    zk: Tensor | None = None
    slope: float = 1.0
    tiny: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing is put off."""
        return self.scale is None and self.yk is None

    def tensors(self, y: Tensor, z: Tensor | None) -> tuple[Tensor, ...]:
        """As the loops want it: y, z, y′, z′, scale, shift and the constants; what there is none of is empty."""
        ends = (y, *(or_empty(y, end) for end in (z, self.yk, self.zk)))
        affine = (y.new_empty(0) if number is None else number for number in (self.scale, self.shift))
        return *ends, *affine, y.new_tensor([self.slope, self.fade, self.tiny])


def activated_reference(e: Tensor, k: Tensor | None, pending: Pending) -> Tensor:
    """`activated` in plain torch, for edges and directions that are stored. Shapes: (R, 3, C) → (R, 3, C)"""
    if pending.scale is not None and pending.shift is not None:
        square = e.square().sum(1, keepdim=True)
        norm = safe_sqrt(square)
        e = e * ((pending.scale * norm + pending.shift) * (norm / (square + pending.fade)))
    if k is None:
        return e
    against = (e * k).sum(1, keepdim=True).clamp(max=0)
    return e - ((1 - pending.slope) * against / (k.square().sum(1, keepdim=True) + pending.tiny)) * k


class _Pull:
    """The way back through `activated`, a chunk of rows at a time, to y, z, y′, z′, scale and shift."""

    def __init__(self, tensors: tuple[Tensor, ...], pooled: bool = False) -> None:
        self.tensors, self.pooled = tensors, pooled
        y, z, yk, zk, scale = tensors[:5]
        self.edges, self.directions = Ends(y, z), Ends(yk, zk)
        self.sums = torch.zeros(2, len(scale), dtype=torch.float64)

    def take(self, gradient: Tensor, chunk: Chunk) -> None:
        """Pass the gradient of a chunk on; if pooled, it is that of all centres."""
        of_e, of_k = self.edges.room(chunk), self.directions.room(chunk)
        sums = gradient.new_empty(chunk.last - chunk.first, *self.sums.shape)
        run(vector_loops.pull, *self.tensors, *chunk.counted, self.pooled, gradient, of_e, of_k, sums)
        self.edges.take(of_e, chunk)
        self.directions.take(of_k, chunk)
        self.sums += sums.double().sum(0)

    def finish(self) -> tuple[Tensor | None, ...]:
        """The gradients of all tensors; the constants have none."""
        of_scale, of_shift = self.sums.to(self.tensors[0].dtype)
        return self.edges.of_y, self.edges.of_z, self.directions.of_y, self.directions.of_z, of_scale, of_shift, None


def _activated(*inputs: Any) -> Tensor:
    *tensors, groups = inputs
    out = fresh(tensors[0], groups.rows, *tensors[0].shape[1:])
    run(vector_loops.activate, *tensors, *groups.whole.where, out)
    return out


def _activated_back(gradient: Tensor, *inputs: Any) -> tuple:
    *tensors, groups = inputs
    pull = _Pull(tuple(tensors))
    for chunk in groups.chunks():
        pull.take(gradient[chunk.part], chunk)
    return pull.finish()


def activated(y: Tensor, z: Tensor | None, pending: Pending, groups: Groups) -> Tensor:
    """Every row behind what is put off: (R, 3, C)."""
    if pending.empty or not loops_run_on(y):
        k = None if pending.yk is None else rows(pending.yk, pending.zk, groups)
        return activated_reference(rows(y, z, groups), k, pending)
    out: Tensor = by_hand(_activated, _activated_back, pending.tensors(y, z), groups)
    return out


def _chunks(tensors: Sequence[Tensor], groups: Groups) -> Rows:
    """All rows behind what is put off."""
    for chunk in groups.chunks():
        h = tensors[0].new_empty(len(chunk), *tensors[0].shape[1:])
        run(vector_loops.activate, *tensors, *chunk.where, h)
        yield h, chunk


def _linear(weight: Tensor, *inputs: Any) -> Tensor:
    *tensors, groups = inputs
    return product(_chunks(tensors, groups), weight, groups)


def _linear_back(gradient: Tensor, weight: Tensor, *inputs: Any) -> tuple:
    *tensors, groups = inputs
    pull = _Pull(tuple(tensors))
    return product_back(gradient, _chunks(tensors, groups), weight, pull), *pull.finish()


def linear(y: Tensor, z: Tensor | None, weight: Tensor, pending: Pending, groups: Groups) -> Tensor:
    """W times every row behind what is put off, a chunk at a time. Shapes: weight (O, C) → (R, 3, O)"""
    if not loops_run_on(y):
        return activated(y, z, pending, groups) @ weight.T
    out: Tensor = by_hand(_linear, _linear_back, (weight, *pending.tensors(y, z)), groups)
    return out


def _mean(*inputs: Any) -> Tensor:
    *tensors, groups = inputs
    out: Tensor = tensors[0].new_empty(groups.centres, *tensors[0].shape[1:])
    run(vector_loops.pool, *tensors, *groups.weighted, groups.size, out)
    return out


def _mean_back(gradient: Tensor, *inputs: Any) -> tuple:
    *tensors, groups = inputs
    pull = _Pull(tuple(tensors), pooled=True)
    for chunk in groups.chunks():
        pull.take(gradient, chunk)
    return pull.finish()


def mean(y: Tensor, z: Tensor | None, pending: Pending, groups: Groups) -> Tensor:
    """The mean over each group of its rows behind what is put off: (P, 3, C)."""
    if not loops_run_on(y):
        return activated(y, z, pending, groups)[groups.place].mean(1)
    out: Tensor = by_hand(_mean, _mean_back, pending.tensors(y, z), groups)
    return out
