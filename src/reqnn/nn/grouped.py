"""The paper's layers on gathered features, put off until a pooling says what is needed of them.

    edges    e = y_j + z_i, then s·e (batch-norm) and the ReLU rule
    product  W·ReLU(s·e), then again s and the ReLU rule
    total    the sum of two such, then again

Max-pooling may come before the batch-norm and the ReLU that precede it: the batch-norm scales a channel by one number and the
ReLU's output norm r²/max(r, c) grows strictly with its input norm r. So `longest` searches among edges, or among products while
they are computed, and only winners are normalised. The statistic of a batch-norm is measured in the same loop. If no gradients
are recorded, a chunk of rows goes through all layers up to the pooling before the next one is read, and no layer is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import edges, rows
from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.power import Power
from reqnn.kernels.products import times
from reqnn.kernels.rows import from_rows, scaled_relu
from reqnn.kernels.run import loops_run_on
from reqnn.memory import fresh
from reqnn.nn.deferred import scaled
from reqnn.nn.on_groups import OnGroups, Step, Steps, placed
from reqnn.tensor import Context
from reqnn.tensor.gathered import Gathered, Summed, Waiting, form_of
from reqnn.tensor.quaternion_tensor import GradMode, QuaternionTensor


class Statistic:
    """E‖f‖² of a batch-norm: the running one, or that of the batch, which whoever comes first measures.

    Args:
        norm: a `QuaternionBatchNorm`.
        grouped: the features that it normalises.
    """

    def __init__(self, norm: Any, grouped: Grouped, context: Context) -> None:
        self.norm, self._grouped, self._context = norm, grouped, context
        for earlier in [other for other in context.unmeasured if other.norm is norm]:
            earlier.resolve()  # a module that is used twice follows its batches in their order
        self._power: Power | None = None if norm.uses_batch else norm.running()
        if self._power is None:
            context.unmeasured.append(self)

    def take(self, sums: Tensor, count: int) -> Power:
        """Σ‖f‖² over `count` places as somebody has measured it, with its graph."""
        if not self.norm.uses_batch:
            return self.resolve()
        power: Power = self.norm.power_of(sums, float(count))
        if self._power is None:
            self._measured(replace(power, mean=power.mean.detach()))
        return power.with_graph()

    def resolve(self) -> Power:
        """The statistic, measured by a loop of its own if nobody has; its derivative belongs to the rows it is applied to."""
        if self._power is None:
            sums = self._grouped.total_power()
            with torch.no_grad():
                self._measured(self.norm.power_of(sums, float(self._grouped.groups.count)))
        assert self._power is not None
        return self._power

    def _measured(self, power: Power) -> None:
        self._power = power
        self.norm.follow(power)
        self._context.unmeasured.remove(self)


def one(width: int, like: Tensor) -> Power:
    """No batch-norm: s = 1."""
    return Power(torch.ones(width, dtype=like.dtype, device=like.device), 0.0)


@dataclass(frozen=True, eq=False)
class Edges:
    """y_j + z_i; rows of their own if z is None. Shapes: y (M, 3, C), z (P, 3, C)"""

    y: Tensor
    z: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Product:
    """W·value of features that are put off. Shapes: weight (O, C)"""

    before: Grouped
    weight: Tensor


@dataclass(frozen=True, eq=False)
class Total:
    """The sum of two features that are put off, the second one times a number."""

    before: Grouped
    other: Grouped
    factor: float


@dataclass(frozen=True, eq=False)
class Grouped(OnGroups):
    """ReLU(s·x) with x the edges, or made of others that are put off.

    Attributes:
        layer: what x is.
        norm: the batch-norm's statistic, None without one.
        c: the constant of the ReLU rule, 0 without one.
        mode: whether gradients are recorded.
        cell: holds x row by row, and Σ‖x‖², once they are computed, for all that share them.
    """

    layer: Edges | Product | Total
    norm: Statistic | None = None
    c: float = 0.0
    sources: tuple[Waiting, ...] = ()
    mode: GradMode = field(default_factory=GradMode)
    cell: dict[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of channels."""
        layer = self.layer
        if isinstance(layer, Edges):
            return layer.y.shape[2]
        return layer.weight.shape[0] if isinstance(layer, Product) else layer.before.width

    @property
    def _like(self) -> Tensor:
        layer = self.layer
        if isinstance(layer, Edges):
            return layer.y
        return layer.weight if isinstance(layer, Product) else layer.before._like

    def new_empty(self, *shape: int) -> Tensor:
        """A tensor with the dtype and device of the rows."""
        return fresh(self._like, *shape)

    @property
    def pending(self) -> bool:
        """Whether a batch-norm or ReLU is put off."""
        return self.norm is not None or self.c > 0

    def power(self) -> Power:
        """What the pending batch-norm divides by."""
        return one(self.width, self._like) if self.norm is None else self.norm.resolve()

    def stored(self) -> tuple[Tensor, Tensor | None, Groups]:
        """What is put off is applied to these: y, z and groups; rows are computed now, and once."""
        if isinstance(self.layer, Edges):
            return self.layer.y, self.layer.z, self.groups
        if "rows" not in self.cell:
            with self.mode():
                self.cell["rows"] = self._computed(self.layer)
        return self.cell["rows"], None, self.groups.stored

    def _computed(self, layer: Product | Total) -> Tensor:
        if self._walks:
            out = self.new_empty(self.groups.rows, 3, self.width)
            return edges.joined(self.walk(self._plain(Steps(storing=True))), out, self.groups)
        y, z, groups = layer.before.stored()
        power, c = layer.before.power(), layer.before.c
        if isinstance(layer, Product):
            self.cell["sums"] = torch.zeros(self.width, dtype=torch.float64, device=y.device)
            return edges.linear(y, z, layer.weight, power, c, groups, self.cell["sums"])
        other = (*layer.other.stored(), layer.other.power(), layer.other.c)
        return edges.total((y, z, groups, power, c), other, layer.factor)

    def total_power(self) -> Tensor:
        """Σ‖x‖² over all places, (C,) float64, without a gradient."""
        y, z, groups = self.stored()
        return self.cell["sums"] if "sums" in self.cell else edges.total_power(y, z, groups)

    def values(self) -> Tensor:
        """All rows, (R, 3, C)."""
        y, z, groups = self.stored()
        return edges.activated(y, z, self.power(), self.c, groups) if self.pending else edges.rows(y, z, groups)

    # -- a chunk of rows at a time, without gradients ------------------------------------------------------------------

    @property
    def _walks(self) -> bool:
        """Whether rows need not be stored, as nobody will ask for their gradient."""
        return not self.mode.grad and not isinstance(self.layer, Edges) and loops_run_on(self._like)

    def _plain(self, steps: Steps) -> Step:
        """x of a chunk."""
        return steps.of(id(self.cell), lambda: self._of_chunk(self.layer, steps))

    def _of_chunk(self, layer: Edges | Product | Total, steps: Steps) -> Callable[[Chunk], Tensor]:
        if isinstance(layer, Edges):
            return edges.chunks_of(layer.y, layer.z, one(self.width, layer.y), 0.0, self.groups)
        if "rows" in self.cell or steps.again(self.cell):
            rows = self.stored()[0]
            return lambda chunk: rows[chunk.part]
        before = layer.before._activated(steps)
        if isinstance(layer, Product):
            return lambda chunk: times(before(chunk), layer.weight)
        other = layer.other._activated(steps)
        return lambda chunk: torch.add(before(chunk), other(chunk), alpha=layer.factor)

    def _activated(self, steps: Steps) -> Step:
        """ReLU(s·x) of a chunk."""
        if not self.pending:
            return self._plain(steps)

        def make() -> Callable[[Chunk], Tensor]:
            if isinstance(self.layer, Edges):
                return edges.chunks_of(self.layer.y, self.layer.z, self.power(), self.c, self.groups)
            plain, scale = self._plain(steps), self.power().scale().to(self._like.dtype)
            return lambda chunk: scaled_relu(plain(chunk), scale, self.c)

        return steps.of((id(self.cell), id(self.norm), self.c), make)

    # -- layers ------------------------------------------------------------------------------------------------------

    def normed(self, norm: Any, context: Context) -> Grouped:
        """Behind a batch-norm."""
        return replace(self, norm=Statistic(norm, self, context))

    def relu(self, c: float) -> Grouped:
        """Behind the ReLU rule."""
        return replace(self, c=c)

    def linear(self, weight: Tensor) -> Grouped:
        """W·value. Shapes: weight (O, C)"""
        return Grouped(self.groups, self.place, self.origin, self.axis, Product(self, weight), sources=self.sources)

    def plus(self, other: Summed, factor: float) -> Grouped | None:
        """Both row by row, if they are on the same groups in the same order."""
        if not isinstance(other, Grouped) or not self.beside(other):
            return None
        layer, sources = Total(self, other, factor), (*self.sources, *other.sources)
        return Grouped(self.groups, self.place, self.origin, self.axis, layer, sources=sources)

    def longest(self) -> tuple[Tensor, Power | None, Tensor]:
        """The longest along the neighbours: rows (P, 3, C), to be scaled by the power and to go through the ReLU; its place."""
        measured = self.norm is not None and self.norm.norm.uses_batch
        if self._walks and "rows" not in self.cell:
            found = self.new_empty(self.groups.centres, 3, self.width)
            sums, winner = edges.search(self.walk(self._plain(Steps())), self.groups, found)
            index = self.groups.places_of(winner)
        elif isinstance(self.layer, Product) and "rows" not in self.cell:
            before = self.layer.before
            y, z, groups = before.stored()
            found, sums, index = edges.longest_linear(y, z, self.layer.weight, before.power(), before.c, groups)
        else:
            found, sums, index = edges.longest(*self.stored(), measured)
        return found, None if self.norm is None else self.norm.take(sums, self.groups.count), index

    def outer_sum(self, weights: Tensor) -> Tensor:
        """Σ_j value_j ⊗ w_j over the neighbours. Shapes: weights (P, K, W) → (P, 3, C, W)"""
        if self._walks:
            return edges.summed_outer(self.walk(self._activated(Steps())), weights, self.groups)
        y, z, groups = self.stored()
        return edges.outer_sum(y, z, weights, self.power(), self.c, groups)


def grouped(form: Gathered) -> Grouped | None:
    """Gathered features as groups along the axis of their neighbours, None if there is no such axis."""
    axis = form.group_axis()
    found = None if axis is None else form.edges(axis)
    if axis is None or found is None:
        return None
    y, z, groups = found
    return Grouped(groups, *placed(form, axis), form.axis, Edges(y, z), sources=form.sources)


def grouped_features(x: Any) -> Grouped | None:
    """The groups behind a tensor whose storage is gathered."""
    kept: Grouped | None = form_of(x, Grouped)
    if kept is not None:
        return kept
    form = form_of(x)
    return None if form is None or form.raw.shape[0] != 3 else grouped(form)


def pooled(x: QuaternionTensor, kept: Grouped, dim: int, keepdim: bool) -> tuple[QuaternionTensor, Tensor]:
    """The longest along logical axis `dim`, and its index."""
    at = dim - (dim > kept.axis)
    found, power, index = kept.longest()
    rest = [*kept.place.shape[:at], *kept.place.shape[at + 1 :]]
    axis = kept.axis - (dim < kept.axis)
    if kept.pending and axis != 1:
        found = rows.relu(found, one(kept.width, found) if power is None else power, kept.c)
    raw, index = from_rows(found.unflatten(0, rest), axis), index.unflatten(0, rest).movedim(-1, axis)
    if keepdim:
        raw, index, axis = raw.unsqueeze(dim + 1), index.unsqueeze(dim), kept.axis
    out = x.like(raw)
    out.channel_axis = axis
    if kept.pending and axis == 1:
        out = scaled(out, one(kept.width, found) if power is None else power, kept.c)
    return out, index
