"""Vector Neurons' layers on gathered features, put off until a pooling or a linear map asks for them.

    e = W·f = y_j + z_i, then e·BN(‖e‖)/‖e‖, then the leaky ReLU along k = U·e = (U·W)·f

Edge and direction are linear in the input f of the layer, so both are computed per point; what is left per edge is done in one
loop by whoever comes next. The statistics of the batch-norm are measured at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import vector_edges
from reqnn.kernels.edges import outer_sum, weighted_sum
from reqnn.kernels.power import Power
from reqnn.kernels.products import times
from reqnn.kernels.vector_edges import Pending
from reqnn.memory import fresh
from reqnn.nn.grouped import Edges, grouped
from reqnn.nn.on_groups import OnGroups
from reqnn.tensor.gathered import Gathered, Summed, Waiting, form_of
from reqnn.tensor.terms import Block


@dataclass(frozen=True, eq=False)
class Product(Gathered):
    """W·f that still knows f and W: what multiplies it next may start from f.

    Attributes:
        before, weight: f and W (O, C).
        own: the blocks that are their product; not those of a tensor that was made from this one.
    """

    before: Gathered
    weight: Tensor
    own: tuple[Block, ...]

    @classmethod
    def of(cls, before: Gathered, weight: Tensor) -> Product:
        """The product, a row at a time."""
        out = before.linear(weight)
        return cls(out.blocks, out.axis, before.sources, before, weight, out.blocks)


@dataclass(frozen=True, eq=False)
class VectorGrouped(OnGroups):
    """Vectors on groups of neighbours.

    Attributes:
        y, z: the edges y_j + z_i; rows of their own if z is None and the groups are stored.
        pending: batch-norm and ReLU that are put off.
        product: what y and z were made of, if it is known.
    """

    y: Tensor
    z: Tensor | None
    pending: Pending = field(default_factory=Pending)
    product: Product | None = None
    sources: tuple[Waiting, ...] = ()

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.y.shape[2]

    def new_empty(self, *shape: int) -> Tensor:
        """A tensor with the dtype and device of the rows."""
        return fresh(self.y, *shape)

    def values(self) -> Tensor:
        """All rows, (R, 3, C)."""
        return vector_edges.activated(self.y, self.z, self.pending, self.groups)

    def _stored(self, y: Tensor) -> VectorGrouped:
        """Rows (R, 3, C) on the same places."""
        return VectorGrouped(self.groups.stored, self.place, self.origin, self.axis, y, None)

    def settled(self) -> VectorGrouped:
        """The same with nothing put off."""
        return self if self.pending.empty else self._stored(self.values())

    def outer_sum(self, weights: Tensor) -> Tensor:
        """As a sum of the stored rows."""
        unit = Power(self.y.new_ones(self.width), 0.0)
        return outer_sum(self.values(), None, weights, unit, 0.0, self.groups.stored)

    # -- layers ------------------------------------------------------------------------------------------------------

    def linear(self, weight: Tensor) -> VectorGrouped:
        """W·value. Shapes: weight (O, C)"""
        if self.pending.empty:
            z = None if self.z is None else times(self.z, weight)
            return replace(self, y=times(self.y, weight), z=z, product=None, sources=())
        return self._stored(vector_edges.linear(self.y, self.z, weight, self.pending, self.groups))

    def lengths(self) -> Tensor:
        """Σ‖e‖ and Σ‖e‖² over all places, (2, C) float64."""
        return vector_edges.lengths(self.y, self.z, self.groups)

    def normed(self, scale: Tensor, shift: Tensor, fade: float) -> VectorGrouped:
        """Behind a batch-norm on norms; nothing else may be put off."""
        dtype = self.y.dtype
        return replace(self, pending=Pending(scale.to(dtype), shift.to(dtype), fade))

    def activated(self, direction: Tensor, slope: float, tiny: float) -> VectorGrouped:
        """Behind the leaky ReLU along U·e, e as it was before the batch-norm. Shapes: U (C, C), or (1, C) for all channels"""
        yk, zk = self._directions(direction)
        if len(direction) == 1:
            yk = yk.expand(-1, -1, self.width).contiguous()
            zk = None if zk is None else zk.expand(-1, -1, self.width).contiguous()
        return replace(self, pending=replace(self.pending, yk=yk, zk=zk, slope=slope, tiny=tiny))

    def _directions(self, direction: Tensor) -> tuple[Tensor, Tensor | None]:
        """The ends of U·e. From f there are fewer roundings: short edges y_j + z_i, and their directions, are what cancels."""
        if self.product is not None:
            axis = self.product.group_axis()
            assert axis is not None
            return self.product.before.linear(direction @ self.product.weight).grouped_along(axis, self.groups)[:2]
        if self.z is None:
            return times(self.y, direction), None
        shift = self.y.detach().mean(0)  # goes from one end to the other: differences keep their digits far from the origin
        return times(self.y - shift, direction), times(self.z + shift, direction)

    def total(self, axis: int, weights: Tensor | None = None) -> Tensor | None:
        """One loop over the neighbours."""
        if not self.groups_along(axis):
            return None
        groups = self.groups
        if weights is None:
            out = vector_edges.mean(self.y, self.z, self.pending, groups) * groups.size
        else:
            w = weights.expand(self.places).movedim(axis, -1).reshape(groups.index.shape).to(self.y.dtype)
            out = weighted_sum(self.values(), groups.place, w)
        return out.unflatten(0, [*self.places[:axis], *self.places[axis + 1 :]])

    def plus(self, other: Summed, factor: float) -> VectorGrouped | None:
        """Both row by row, if they are on the same groups in the same order."""
        if not isinstance(other, VectorGrouped) or not self.beside(other):
            return None
        return self._stored(torch.add(self.values(), other.values(), alpha=factor))


def vector_groups(x: Any, axis: int) -> VectorGrouped | None:
    """The groups behind a tensor of vectors whose channels are on `axis`, None if its storage is another."""
    kept: VectorGrouped | None = form_of(x, VectorGrouped)
    form = form_of(x) if kept is None else None
    if form is not None and form.axis == axis and form.raw.shape[0] == 3 and x.dtype in (torch.float32, torch.float64):
        found = grouped(form)
        if found is not None and isinstance(found.layer, Edges):
            product = form if isinstance(form, Product) and form.own is form.blocks else None
            places = (found.groups, found.place, found.origin, found.axis)
            kept = VectorGrouped(*places, found.layer.y, found.layer.z, product=product, sources=found.sources)
    return kept if kept is not None and kept.axis == axis else None
