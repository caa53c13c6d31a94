"""The paper's layers on gathered features, put off until a pooling says what is needed of them.

    edges    e = y_j + z_i, then s·e (batch-norm) and the ReLU rule
    product  W·ReLU(s·e), then again s and the ReLU rule

Max-pooling may come before the batch-norm and the ReLU that precede it: the batch-norm scales a channel by one number and the
ReLU's output norm r²/max(r, c) grows strictly with its input norm r. So `longest` searches among edges, or among products while
they are computed, and only winners are normalised. The statistic of a batch-norm is measured in the same loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import edges, rows
from reqnn.kernels.groups import Groups
from reqnn.kernels.power import Power
from reqnn.kernels.rows import from_rows
from reqnn.nn.deferred import scaled
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
            y, z, groups = self._grouped.stored()
            with torch.no_grad():
                self._measured(self.norm.power_of(edges.total_power(y, z, groups), float(groups.count)))
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
class Grouped(Summed):
    """ReLU(s·x) with x the edges, or W·x of others that are put off.

    Attributes:
        groups: P centres of K places each.
        place: for every logical place its number among the P·K; every structural operation is the same operation on it.
        origin: 0, …, P·K − 1, of which `place` is a view unless it was copied into another order.
        axis: the logical axis of the channels.
        y, z: the edges, or
        before, weight: the features that W (O, C) multiplies.
        norm: the batch-norm's statistic, None without one.
        c: the constant of the ReLU rule, 0 without one.
        mode: whether gradients are recorded.
        cell: holds the product once it is computed, for all that share it.
    """

    groups: Groups
    place: Tensor
    origin: Tensor
    axis: int
    y: Tensor | None = None
    z: Tensor | None = None
    before: Grouped | None = None
    weight: Tensor | None = None
    norm: Statistic | None = None
    c: float = 0.0
    sources: tuple[Waiting, ...] = ()
    mode: GradMode = field(default_factory=GradMode)
    cell: dict[str, Tensor] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of channels."""
        held = self.y if self.y is not None else self.weight
        assert held is not None
        return held.shape[2] if self.y is not None else held.shape[0]

    @property
    def _like(self) -> Tensor:
        return self.y if self.y is not None else self.weight  # type: ignore[return-value]

    @property
    def pending(self) -> bool:
        """Whether a batch-norm or ReLU is put off."""
        return self.norm is not None or self.c > 0

    @cached_property
    def raw(self) -> Tensor:
        """Something with the shape, dtype and device of the components that takes no memory."""
        return self._like.new_empty(1).expand(3, *self.place.shape[: self.axis], self.width, *self.place.shape[self.axis :])

    def power(self) -> Power:
        """What the pending batch-norm divides by."""
        return one(self.width, self._like) if self.norm is None else self.norm.resolve()

    def stored(self) -> tuple[Tensor, Tensor | None, Groups]:
        """What is put off is applied to these: y, z and groups; a product is computed now, and once."""
        if self.y is not None:
            return self.y, self.z, self.groups
        if "product" not in self.cell:
            assert self.before is not None
            assert self.weight is not None
            with self.mode():
                y, z, groups = self.before.stored()
                self.cell["product"] = edges.linear(y, z, self.weight, self.before.power(), self.before.c, groups)
        return self.cell["product"], None, self.groups.stored

    def components(self) -> Tensor:
        """The values, (3, *shape)."""
        dense = self.rows()
        placed = dense.index_select(0, self.groups.place.reshape(-1)) if self.groups.padded else dense
        return from_rows(placed.index_select(0, self.place.reshape(-1)).view(*self.place.shape, 3, -1), self.axis)

    def squared_norm(self) -> Tensor:
        """‖q‖² of each element."""
        return self.components().square().sum(0)

    def mapped(self, function: Any, axis: int) -> Grouped:
        """Apply a structural operation to the places; channels are on `axis` then."""
        return replace(self, place=function(self.place), axis=axis)

    # -- layers ------------------------------------------------------------------------------------------------------

    def normed(self, norm: Any, context: Context) -> Grouped:
        """Behind a batch-norm."""
        return replace(self, norm=Statistic(norm, self, context))

    def relu(self, c: float) -> Grouped:
        """Behind the ReLU rule."""
        return replace(self, c=c)

    def linear(self, weight: Tensor) -> Grouped:
        """W·value. Shapes: weight (O, C)"""
        return Grouped(self.groups, self.place, self.origin, self.axis, before=self, weight=weight)

    def groups_along(self, axis: int) -> bool:
        """Whether an axis of the places runs over the neighbours of each centre, the centres in their order."""
        return self.groups.along(self.place, self.origin, axis)

    def longest(self) -> tuple[Tensor, Power | None, Tensor]:
        """The longest along the neighbours: rows (P, 3, C), to be scaled by the power and to go through the ReLU; its place."""
        measured = self.norm is not None and self.norm.norm.uses_batch
        if self.y is not None:
            found, sums, index = edges.longest(self.y, self.z, self.groups, measured)
        else:
            assert self.before is not None
            assert self.weight is not None
            y, z, groups = self.before.stored()
            found, sums, index = edges.longest_linear(y, z, self.weight, self.before.power(), self.before.c, groups)
        return found, None if self.norm is None else self.norm.take(sums, self.groups.count), index

    @property
    def places(self) -> torch.Size:
        """The logical shape without the channels."""
        return self.place.shape

    def total(self, axis: int, weights: Tensor | None = None) -> Tensor | None:
        """As a sum of outer products with one number per place."""
        if self.groups.padded or not self.groups_along(axis):
            return None
        w = self._like.new_ones(()) if weights is None else weights.to(self._like.dtype)
        w = w.expand(self.places).movedim(axis, -1).reshape(self.groups.centres, self.groups.size, 1)
        return self.outer_sum(w).squeeze(-1).unflatten(0, [*self.places[:axis], *self.places[axis + 1 :]])

    def plus(self, other: Summed, factor: float) -> Grouped | None:
        """Both row by row, if they are on the same groups in the same order."""
        if not isinstance(other, Grouped) or self.groups.index is not other.groups.index or self.axis != other.axis:
            return None
        a, b = self.place, other.place
        if (a.data_ptr(), a.shape, a.stride()) != (b.data_ptr(), b.shape, b.stride()) or self.width != other.width:
            return None
        y = torch.add(self.rows(), other.rows(), alpha=factor)
        return Grouped(self.groups.stored, self.place, self.origin, self.axis, y)

    def rows(self) -> Tensor:
        """The values of all rows, (R, 3, C)."""
        y, z, groups = self.stored()
        return edges.activated(y, z, self.power(), self.c, groups) if self.pending else edges.rows(y, z, groups)

    def outer_sum(self, weights: Tensor) -> Tensor:
        """Σ_j value_j ⊗ w_j over the neighbours. Shapes: weights (P, K, W) → (P, 3, C, W)"""
        y, z, groups = self.stored()
        return edges.outer_sum(y, z, weights, self.power(), self.c, groups)


def grouped(form: Gathered) -> Grouped | None:
    """Gathered features as groups along the axis of their neighbours, None if there is no such axis."""
    axis = form.group_axis()
    found = None if axis is None else form.edges(axis)
    if axis is None or found is None:
        return None
    y, z, groups = found
    shape = form.places
    origin = torch.arange(shape.numel(), device=y.device)
    place = origin.view(*shape[:axis], *shape[axis + 1 :], shape[axis]).movedim(-1, axis)
    return Grouped(groups, place, origin, form.axis, y, z, sources=form.sources)


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
