"""Layers of full quaternions on groups of neighbours: imaginary parts e = y_j + z_i are never stored, real parts s are.

    moments     Σ s and Σ s² over all places
    activated   φ(u) and γ(u)·e/size of every row, u = scale·s + shift, φ a leaky ReLU
    pooled      max_j u and the mean of γ(u)·e/size over each group

Each has its derivative by hand and a plain-torch twin, its oracle and what runs on other devices; see `reqnn.kernels.edges`.

Shapes:
    s: (R, C); y: (M, 3, C); z: (P, 3, C) or None; scale, shift: (C,)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reqnn.kernels import edge_loops, full_edge_loops
from reqnn.kernels.edges import _or_empty, rows
from reqnn.kernels.full_rows import gate, unit_reference
from reqnn.kernels.groups import Groups
from reqnn.kernels.run import loops_run_on, run

BLOCK = 64  # rows that are summed up before sums are added in float64


class Ends:
    """Gradients of edges, a chunk of rows at a time, on their way to y and z."""

    def __init__(self, y: Tensor, z: Tensor, groups: Groups) -> None:
        self.y, self.groups, self.gathered = y, groups, len(z) > 0
        self.of_y = torch.zeros_like(y) if self.gathered else torch.empty_like(y)
        self.of_z = torch.zeros_like(z)

    def room(self, part: slice) -> Tensor:
        """Where the gradient of these rows is to be written."""
        return self.y.new_empty(part.stop - part.start, *self.y.shape[1:]) if self.gathered else self.of_y[part]

    def take(self, of_e: Tensor, first: int, last: int) -> None:
        """Pass a chunk on."""
        if self.gathered:
            where = (self.groups.neighbour, self.groups.start, first, last)
            run(edge_loops.add_to_ends, of_e, *where, self.of_y, self.of_z)


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, groups: Groups) -> Tensor:
        ctx.save_for_backward(s)
        ctx.groups = groups
        sums = torch.empty(-(-s.shape[0] // BLOCK), 2, s.shape[1], dtype=torch.float64)
        run(full_edge_loops.moments, s, groups.weight, sums)
        return sums.sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        (s,) = ctx.saved_tensors
        once, twice = gradients[0].to(s.dtype)
        out = torch.addcmul(once, s, 2 * twice)
        return out.mul_(ctx.groups.weight[:, None]) if ctx.groups.padded else out, None


def moments(s: Tensor, groups: Groups) -> Tensor:
    """Σ s and Σ s² over all places, (2, C) float64."""
    if not loops_run_on(s):
        weighted = s * groups.weight[:, None]
        return torch.stack([weighted.sum(0), (weighted * s).sum(0)]).double()
    out: Tensor = _Moments.apply(s, groups)
    return out


@dataclass(frozen=True)
class Activation:
    """What is put off. Attributes: unit, ε of the size, 0 without; gated; slope of the leaky ReLU, 1 for none."""

    unit: float = 0.0
    gated: bool = False
    slope: float = 1.0


def imaginary_reference(u: Tensor, e: Tensor, activation: Activation) -> Tensor:
    """γ(u)·e/size in plain torch. Shapes: u (*, C), e (*, 3, C) → (*, 3, C)"""
    if activation.unit > 0:
        e = unit_reference(e, activation.unit)
    return e * gate(u).unsqueeze(-2) if activation.gated else e


class _Activated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, s: Tensor, y: Tensor, z: Tensor, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(s, y, z, scale, shift)
        ctx.activation, ctx.groups = activation, groups
        real, imaginary = torch.empty_like(s), s.new_empty(s.shape[0], 3, s.shape[1])
        where = (groups.neighbour, groups.start, 0, groups.centres)
        constants = (activation.unit, activation.gated, activation.slope)
        run(full_edge_loops.activate, s, y, z, *where, scale, shift, *constants, real, imaginary)
        return real, imaginary

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        s, y, z, scale, shift = ctx.saved_tensors
        groups, activation = ctx.groups, ctx.activation
        of_real, of_imaginary = (gradient.contiguous() for gradient in gradients)
        ends, of_s, total = Ends(y, z, groups), torch.empty_like(s), torch.zeros(2, s.shape[1], dtype=torch.float64)
        constants = (scale, shift, activation.unit, activation.gated, activation.slope)
        for first, last, part in groups.chunks():
            of_e, sums = ends.room(part), s.new_empty(last - first, 2, s.shape[1])
            where = (groups.neighbour, groups.start, first, last)
            given = (of_real[part], of_imaginary[part], of_s[part], of_e, sums)
            run(full_edge_loops.activate_back, s, y, z, *where, *constants, *given)
            ends.take(of_e, first, last)
            total += sums.double().sum(0)
        return of_s, ends.of_y, ends.of_z, total[1].to(s.dtype), total[0].to(s.dtype), None, None


def activated(
    s: Tensor, y: Tensor, z: Tensor | None, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
) -> tuple[Tensor, Tensor]:
    """Both parts of every row: (R, C), (R, 3, C)."""
    if not loops_run_on(s):
        u = s * scale + shift
        return torch.where(u > 0, u, activation.slope * u), imaginary_reference(u, rows(y, z, groups), activation)
    out: tuple[Tensor, Tensor] = _Activated.apply(s, y, _or_empty(y, z), scale, shift, activation, groups)
    return out


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, s: Tensor, y: Tensor, z: Tensor, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
    ) -> tuple[Tensor, Tensor, Tensor]:
        shape = (groups.centres, s.shape[1])
        largest, imaginary = s.new_empty(shape), s.new_empty(shape[0], 3, shape[1])
        winner = torch.empty(shape, dtype=torch.int32)
        where = (groups.neighbour, groups.start, groups.weight, groups.size, 0, groups.centres)
        constants = (scale, shift, activation.unit, activation.gated)
        run(full_edge_loops.pool, s, y, z, *where, *constants, largest, winner, imaginary)
        ctx.save_for_backward(s, y, z, scale, shift, winner)
        ctx.activation, ctx.groups = activation, groups
        ctx.mark_non_differentiable(winner)
        return largest, imaginary, winner

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        s, y, z, scale, shift, winner = ctx.saved_tensors
        groups, activation = ctx.groups, ctx.activation
        of_largest, of_imaginary = (gradient.contiguous() for gradient in gradients[:2])
        ends, of_s, total = Ends(y, z, groups), torch.empty_like(s), torch.zeros(2, s.shape[1], dtype=torch.float64)
        constants = (scale, shift, activation.unit, activation.gated, winner, of_largest, of_imaginary)
        for first, last, part in groups.chunks():
            of_e, sums = ends.room(part), s.new_empty(last - first, 2, s.shape[1])
            where = (groups.neighbour, groups.start, groups.weight, groups.size, first, last)
            run(full_edge_loops.pool_back, s, y, z, *where, *constants, of_s[part], of_e, sums)
            ends.take(of_e, first, last)
            total += sums.double().sum(0)
        return of_s, ends.of_y, ends.of_z, total[1].to(s.dtype), total[0].to(s.dtype), None, None


def pooled(
    s: Tensor, y: Tensor, z: Tensor | None, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    """max_j u, before the activation; the mean of the imaginary parts; the winner's place in its group.

    Shapes: → (P, C), (P, 3, C), (P, C) int64
    """
    if not loops_run_on(s):
        u = s * scale + shift
        parts = imaginary_reference(u, rows(y, z, groups), activation)
        largest, winner = u[groups.place].max(1)
        return largest, parts[groups.place].mean(1), winner
    largest, imaginary, winner = _Pooled.apply(s, y, _or_empty(y, z), scale, shift, activation, groups)
    return largest, imaginary, groups.places_of(winner)
