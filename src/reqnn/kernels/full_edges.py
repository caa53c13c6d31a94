"""Layers of full quaternions on groups of neighbours: imaginary parts e = y_j + z_i are never stored, real parts s are.

    moments     Σ s and Σ s² over all places
    activated   φ(u) and γ(u)·e/size of every row, u = scale·s + shift, φ a leaky ReLU
    pooled      max_j u and the mean of γ(u)·e/size over each group

Each has its derivative by hand and a plain-torch twin, its oracle and what runs on other devices; see `reqnn.kernels.edges`.

Shapes:
    s: (R, C); y: (M, 3, C); z: (P, 3, C) or None; scale, shift: (C,)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import full_edge_loops, tied
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.edges import Ends, or_empty, rows
from reqnn.kernels.full_rows import gate, unit_reference
from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.run import loops_run_on, run
from reqnn.memory import fresh

BLOCK = 64  # rows that are summed up before sums are added in float64


def moments(s: Tensor, groups: Groups) -> Tensor:
    """Σ s and Σ s² over all places, (2, C) float64; where loops run without a gradient, see `Measured`."""
    if not loops_run_on(s):
        weighted = s * groups.weight[:, None]
        return torch.stack([weighted.sum(0), (weighted * s).sum(0)]).double()
    sums = torch.empty(-(-s.shape[0] // BLOCK), 2, s.shape[1], dtype=torch.float64)
    run(full_edge_loops.moments, s, groups.weight, sums)
    return sums.sum(0)


@dataclass(frozen=True, eq=False)
class Measured:
    """Batch statistics of the very rows that they are applied to: their derivative goes to these rows without a graph.

    Attributes:
        mean, variance: (C,) float64, the variance with ε.
        count: the number of places.
    """

    mean: Tensor
    variance: Tensor
    count: int

    def share(self, scale: Tensor, of_scale: Tensor, of_shift: Tensor) -> tuple[Tensor, Tensor]:
        """a and b of a + b·s, the derivative by s through scale = w/√variance and shift = bias − scale·mean."""
        b = (self.mean * of_shift - of_scale) * scale / (self.variance * self.count)
        return -scale * of_shift / self.count - b * self.mean, b


@dataclass(frozen=True)
class Activation:
    """What is put off.

    Attributes:
        unit: ε of the size, 0 without.
        slope: of the leaky ReLU, 1 for none.
        measured: what scale and shift were made of, if it has no graph.
    """

    unit: float = 0.0
    gated: bool = False
    slope: float = 1.0
    measured: Measured | None = None

    @property
    def constants(self) -> tuple[float, bool, float]:
        """As the loops want them."""
        return self.unit, self.gated, self.slope


def imaginary_reference(u: Tensor, e: Tensor, activation: Activation) -> Tensor:
    """γ(u)·e/size in plain torch. Shapes: u (*, C), e (*, 3, C) → (*, 3, C)"""
    if activation.unit > 0:
        e = unit_reference(e, activation.unit)
    return e * gate(u).unsqueeze(-2) if activation.gated else e


class Pull(Ends):
    """The way back through `activated` or `pooled`, a chunk of rows at a time, to s, y, z, scale and shift."""

    def __init__(self, before: tuple[Tensor, ...], activation: Activation, groups: Groups) -> None:
        s, y, z, scale, shift = before
        super().__init__(y, z)
        self.s, self.affine, self.activation = s, (scale, shift), activation
        self.of_s, self.sums = fresh(s, *s.shape), s.new_empty(groups.centres, 2, s.shape[1])

    def activation_back(self, of_real: Tensor, of_imaginary: Tensor, chunk: Chunk, winner: Tensor | None = None) -> None:
        """Pass gradients on: those of these rows, or with the winners those of all centres."""
        of_e = self.room(chunk)
        winner = torch.empty(0, self.s.shape[1], dtype=torch.int32) if winner is None else winner
        given = (winner, of_real, of_imaginary, self.of_s[chunk.part], of_e, self.sums[chunk.centres])
        constants = (*chunk.counted, *self.affine, *self.activation.constants)
        run(full_edge_loops.pull, self.s, self.y, self.z, *constants, *given)
        self.take(of_e, chunk)

    def finish(self, groups: Groups) -> tuple[Tensor, ...]:
        """The gradients of s, y, z, scale and shift."""
        of_shift, of_scale = self.sums.sum(0, dtype=torch.float64)
        if self.activation.measured is not None:
            a, b = (x.to(self.s.dtype) for x in self.activation.measured.share(self.affine[0].double(), of_scale, of_shift))
            for chunk in groups.chunks():
                extra = torch.addcmul(a, self.s[chunk.part], b)
                self.of_s[chunk.part] += extra.mul_(groups.weight[chunk.part, None]) if groups.padded else extra
        return self.of_s, self.of_y, self.of_z, of_scale.to(self.s.dtype), of_shift.to(self.s.dtype)


Activated = tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Activation, Groups]
"""s, y, z, scale, shift, what is put off, and the groups."""


def as_loops_want(features: Activated) -> tuple[tuple[Tensor, ...], Activation, Groups]:
    """The tensors, the activation and the groups."""
    s, y, z, scale, shift, activation, groups = features
    return (s, y, or_empty(y, z), scale, shift), activation, groups


def activated_of(before: tuple[Tensor, ...], activation: Activation, chunk: Chunk) -> tuple[Tensor, Tensor]:
    """Both parts of a chunk of rows, without gradients, from those of all rows."""
    s, y, z, scale, shift = before
    return activated_rows((s[chunk.part], y if len(z) else y[chunk.part], z), scale, shift, activation, chunk)


def activated_rows(
    parts: tuple[Tensor, Tensor, Tensor], scale: Tensor, shift: Tensor, activation: Activation, chunk: Chunk
) -> tuple[Tensor, Tensor]:
    """Both parts of a chunk of rows, without gradients; of s, y and z, s and, if z is empty, y are of these rows only."""
    s = parts[0]
    real, imaginary = fresh(s, *s.shape), fresh(s, s.shape[0], 3, s.shape[1])
    constants = (*chunk.where, scale, shift, *activation.constants)
    run(full_edge_loops.activate, *parts, *constants, real, imaginary)
    return real, imaginary


def _activated(
    s: Tensor, y: Tensor, z: Tensor, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
) -> tuple[Tensor, Tensor]:
    return activated_rows((s, y, z), scale, shift, activation, groups.whole)


def _activated_back(of_real: Tensor, of_imaginary: Tensor, *saved: Any) -> tuple[Tensor, ...]:
    *before, activation, groups = saved
    pull = Pull((*before,), activation, groups)
    for chunk in groups.chunks():
        pull.activation_back(of_real[chunk.part], of_imaginary[chunk.part], chunk)
    return pull.finish(groups)


def activated(
    s: Tensor, y: Tensor, z: Tensor | None, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
) -> tuple[Tensor, Tensor]:
    """Both parts of every row: (R, C), (R, 3, C)."""
    if not loops_run_on(s):
        u = s * scale + shift
        return torch.where(u > 0, u, activation.slope * u), imaginary_reference(u, rows(y, z, groups), activation)
    tensors = (s, y, or_empty(y, z), scale, shift)
    out: tuple[Tensor, Tensor] = by_hand(_activated, _activated_back, tensors, activation, groups)
    return out


Chunks = Iterable[tuple[tuple[Tensor, Tensor, Tensor], Chunk]]
"""s of some rows, their edges as y and z, and which rows they are."""


def pool(chunks: Chunks, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """`pooled` a chunk at a time, without gradients; winners are counted from the first row of their group."""
    shape = (groups.centres, len(scale))
    largest, imaginary = scale.new_empty(shape), scale.new_empty(shape[0], 3, shape[1])
    winner = torch.empty(shape, dtype=torch.int32)
    for parts, chunk in chunks:
        constants = (*chunk.counted, scale, shift, *activation.constants)
        run(full_edge_loops.pool, *parts, *constants, largest, winner, imaginary)
    return largest, imaginary, winner


def _pooled(
    s: Tensor, y: Tensor, z: Tensor, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    return pool([((s, y, z), groups.whole)], scale, shift, activation, groups)


def _pooled_back(of_largest: Tensor, of_imaginary: Tensor, *saved: Any) -> tuple[Tensor, ...]:
    *before, winner, activation, groups = saved
    pull = Pull((*before,), activation, groups)
    for chunk in groups.chunks():
        pull.activation_back(of_largest, of_imaginary, chunk, winner)
    return pull.finish(groups)


def pooled(
    s: Tensor, y: Tensor, z: Tensor | None, scale: Tensor, shift: Tensor, activation: Activation, groups: Groups
) -> tuple[Tensor, Tensor, Tensor]:
    """max_j u, before the activation; the mean of the imaginary parts; the winner's place in its group.

    Shapes: → (P, C), (P, 3, C), (P, C) int64
    """
    if not loops_run_on(s):
        u = s * scale + shift
        parts = imaginary_reference(u, rows(y, z, groups), activation)
        largest, winner = tied.largest(u[groups.place], 1)
        return largest, parts[groups.place].mean(1), winner
    tensors = (s, y, or_empty(y, z), scale, shift)
    largest, imaginary, winner = by_hand(_pooled, _pooled_back, tensors, activation, groups)
    return largest, imaginary, groups.places_of(winner)
