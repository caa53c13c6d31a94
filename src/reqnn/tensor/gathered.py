"""Gathered storage: features that know how they were gathered.

    value[place, part, channel] = Σ_t factor_t · rows_t[index_t[place], part, channel]

The edge features [f_j − f_i, f_i] of a graph network are rows of a small tensor, f_j by the neighbour's index and f_i repeated
for all neighbours of i. Stored like this, a linear map acts on the rows: a product per point, not per edge. Every
structural operation (view, permute, expand, a slice of places, another gather) is the same torch operation on the index, so
torch does the bookkeeping. What has no such form asks for `components`, and the value becomes an ordinary tensor.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels.edges import weighted_sum
from reqnn.kernels.groups import Groups, from_index
from reqnn.kernels.rows import from_rows
from reqnn.tensor.quaternion_tensor import GradMode, QuaternionTensor
from reqnn.tensor.terms import Block, Term, constant_along, counts_up, products, same_index

Waiting = weakref.WeakValueDictionary[int, QuaternionTensor]


class Storage:
    """Values that are computed when they are asked for."""

    def components(self) -> Tensor:
        """The values, (parts, *shape)."""
        raise NotImplementedError

    def squared_norm(self) -> Tensor:
        """‖q‖² of each element."""
        return self.components().square().sum(0)


class OnPlaces(Storage):
    """A storage whose channels are one logical axis, and whose places may be reordered without computing anything.

    Attributes:
        axis: the logical axis of the channels.
    """

    axis: int

    def mapped(self, function: Callable[[Tensor], Tensor], axis: int) -> OnPlaces:
        """Apply a structural operation to the places; channels are on `axis` then."""
        raise NotImplementedError


class Summed(OnPlaces):
    """A storage that can be summed over neighbours without being stored."""

    @property
    def places(self) -> torch.Size:
        """The logical shape without the channels."""
        raise NotImplementedError

    def total(self, axis: int, weights: Tensor | None = None) -> Tensor | None:
        """Σ value over an axis of places, or Σ weights·value with weights (*places): (*other places, parts, C).

        None if it has no such form.
        """
        raise NotImplementedError

    def plus(self, other: Summed, factor: float) -> Summed | None:
        """self + factor·other, None if it has no such form."""
        return None


@dataclass(frozen=True, eq=False)
class Gathered(Summed):
    """The storage of a `QuaternionTensor` whose values are sums of gathered rows.

    Attributes:
        blocks: blocks of channels, each a sum of terms on the same places.
        axis: the logical axis of the channels.
        sources: who else waits for the memory of the rows; before it is overwritten in place, all take their values.
    """

    blocks: tuple[Block, ...]
    axis: int
    sources: tuple[Waiting, ...]

    @property
    def places(self) -> torch.Size:
        """The logical shape without the channels."""
        return self.blocks[0][0].index.shape

    @property
    def width(self) -> int:
        """The number of channels."""
        return sum(block[0].rows.shape[2] for block in self.blocks)

    @cached_property
    def raw(self) -> Tensor:
        """Something with the shape, dtype and device of the components that takes no memory."""
        rows = self.blocks[0][0].rows
        shape = (rows.shape[1], *self.places[: self.axis], self.width, *self.places[self.axis :])
        return rows.new_empty(1).expand(shape)

    def components(self) -> Tensor:
        """The values, (parts, *shape)."""
        parts = []
        for block in self.blocks:
            value = block[0].value()
            for term in block[1:]:
                value = value + term.value()
            parts.append(value.expand(*self.places, *value.shape[-2:]))
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return from_rows(rows, self.axis).contiguous() if 0 in rows.stride() else from_rows(rows, self.axis)

    # -- the same operation on every index ---------------------------------------------------------------------------

    def mapped(self, function: Callable[[Tensor], Tensor], axis: int) -> Gathered:
        """Apply a structural operation to the places; channels are on `axis` then."""
        done: dict[int, Tensor] = {}  # indices that are one tensor stay one

        def once(index: Tensor) -> Tensor:
            if id(index) not in done:
                done[id(index)] = function(index)
            return done[id(index)]

        blocks = tuple(tuple(replace(term, index=once(term.index)) for term in block) for block in self.blocks)
        return Gathered(blocks, axis, self.sources)

    def channels(self, start: int, stop: int) -> Gathered:
        """Some channels."""
        blocks, first = [], 0
        for block in self.blocks:
            width = block[0].rows.shape[2]
            a, b = max(start - first, 0), min(stop - first, width)
            if a < b:
                whole = (a, b) == (0, width)
                blocks.append(block if whole else tuple(replace(term, rows=term.rows[:, :, a:b]) for term in block))
            first += width
        return replace(self, blocks=tuple(blocks))

    def with_rows(self, function: Callable[[Term, int], Term]) -> Gathered:
        """Change the terms; the second argument is the first channel of the block."""
        blocks, first = [], 0
        for block in self.blocks:
            blocks.append(tuple(function(term, first) for term in block))
            first += block[0].rows.shape[2]
        return replace(self, blocks=tuple(blocks))

    # -- linear maps -------------------------------------------------------------------------------------------------

    def linear(self, weight: Tensor, parts: slice = slice(None)) -> Gathered:
        """W·value: a product per row. Shapes: weight (O, C)"""
        return Gathered((products(self.blocks, weight, parts),), self.axis, ())

    # -- groups ------------------------------------------------------------------------------------------------------

    def group_axis(self) -> int | None:
        """The axis of the neighbours: one term is constant along it and another is not."""
        terms = [term for block in self.blocks for term in block]
        several = [term for term in terms if len(term.rows) > self.places[0]]  # what is one per cloud says little
        for some, constant in product((several, terms), (lambda index, axis: index.stride(axis) == 0, constant_along)):
            for axis in reversed(range(len(self.places))):
                if self.places[axis] > 1:
                    still = [constant(term.index, axis) for term in some]
                    if any(still) and not all(still):
                        return axis
        return None

    def grouped_along(self, axis: int, groups: Groups | None = None) -> tuple[Tensor, Tensor | None, Groups]:
        """As `edges`, for features that are known to have that form."""
        found = self.edges(axis, groups)
        assert found is not None
        return found

    def edges(self, axis: int, groups: Groups | None = None) -> tuple[Tensor, Tensor | None, Groups] | None:
        """y (M, parts, C), z (P, parts, C) and the groups along an axis of places; None if it has another form.

        P numbers the other places in their order. The groups may be known already.
        """
        if len(self.blocks) != 1:
            return None
        y: Tensor | None = None
        z: Tensor | None = None
        neighbours: Tensor | None = None
        for term in self.blocks[0]:
            index, rows = term.index.movedim(axis, -1), term.scaled_rows()
            if constant_along(index, -1):
                at = index.select(-1, 0).reshape(-1)
                part = rows if counts_up(at, len(rows)) else rows.index_select(0, at)
                z = part if z is None else z + part
            elif y is None or neighbours is None:
                y, neighbours = rows, index
            elif same_index(neighbours, index):
                y = y + rows
            else:
                return None
        if y is None or neighbours is None:
            return None
        groups = groups or from_index(neighbours.reshape(-1, neighbours.shape[-1]), y)
        return y.contiguous(), None if z is None else z.contiguous(), groups

    def total(self, axis: int, weights: Tensor | None = None) -> Tensor | None:
        """One loop over the neighbours."""
        found = self.edges(axis)
        if found is None:
            return None
        y, z, groups = found
        if weights is None:
            w = y.new_ones(groups.index.shape)
        else:
            w = weights.expand(self.places).movedim(axis, -1).reshape(groups.index.shape).to(y.dtype)
        out = weighted_sum(y, groups.index, w)
        if z is not None:
            out = out + z * w.sum(1)[:, None, None]
        return out.unflatten(0, [*self.places[:axis], *self.places[axis + 1 :]])

    def moments(self) -> tuple[Tensor, Tensor] | None:
        """Σ‖value‖² and Σ value over all that belongs to a place on the first axis: (B,), (B, parts) float64.

        Σ_k ‖y_j + z_i‖² = Σ_k ‖y_j‖² + 2·⟨z_i, Σ_k y_j⟩ + K·‖z_i‖²; None if it has no such form.
        """
        axis, squares, sums = self.group_axis(), 0.0, 0.0
        for block in self.blocks:
            found = replace(self, blocks=(block,)).edges(axis) if axis else None
            if found is None:
                return None
            y, z, groups = found[0].double(), found[1], found[2]
            ones = y.new_ones(groups.index.shape)
            near, lengths = (weighted_sum(x, groups.index, ones) for x in (y, y.square().sum((1, 2))[:, None]))
            total, square = near, lengths.squeeze(1)
            if z is not None:
                z = z.double()
                total = near + groups.size * z
                square = square + (z * (near + total)).sum((1, 2))
            squares = squares + square.unflatten(0, (self.places[0], -1)).sum(1)
            sums = sums + total.sum(2).unflatten(0, (self.places[0], -1)).sum(1)
        return squares, sums  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Flattened(Storage):
    """Gathered features with all axes but the first merged, as for a statistic of each cloud."""

    form: Gathered

    @property
    def raw(self) -> Tensor:
        """Something with the shape, dtype and device of the components that takes no memory."""
        raw = self.form.raw
        return raw.new_empty(1).expand(*raw.shape[:2], raw.shape[2:].numel())

    @property
    def sources(self) -> tuple[Waiting, ...]:
        """Those of the features."""
        return self.form.sources

    def components(self) -> Tensor:
        """The values, (parts, B, *)."""
        return self.form.components().flatten(2)


@dataclass(frozen=True, eq=False)
class Repeated(Storage):
    """A repeated tensor that has not been copied: the storage of `repeat`. Attributes: raw, an expanded view of the source."""

    raw: Tensor
    sources: tuple[Waiting, ...]

    def components(self) -> Tensor:
        """The copy."""
        return self.raw.contiguous()


@dataclass(frozen=True, eq=False)
class Weighted(OnPlaces):
    """Gathered features times one real number per place; a sum over neighbours is then one loop."""

    form: Any  # a `Summed`
    weights: Tensor

    @property
    def axis(self) -> int:  # type: ignore[override]
        """The axis of the channels."""
        return self.form.axis

    def mapped(self, function: Callable[[Tensor], Tensor], axis: int) -> Weighted:
        """Apply a structural operation to features and numbers."""
        return Weighted(self.form.mapped(function, axis), function(self.weights.expand(self.form.places)))

    @property
    def sources(self) -> tuple[Waiting, ...]:
        """Those of the features."""
        return self.form.sources

    @property
    def raw(self) -> Tensor:
        """As of the features."""
        return self.form.raw

    def components(self) -> Tensor:
        """The products."""
        return self.form.components() * self.weights.unsqueeze(self.form.axis)


def rows_of(components: Tensor, axis: int, memo: dict[Any, tuple[Tensor, Tensor]]) -> Tensor:
    """Components (parts, *) with channels on logical axis `axis` as rows (M, parts, C).

    Views of the same memory give the same rows, which `memo` holds for one pass: terms that read them are then merged.
    """
    moved = components.movedim((0, axis + 1), (-2, -1))
    sizes: list[list[int]] = []
    for size, stride in zip(moved.shape, moved.stride(), strict=True):
        if len(sizes) and len(sizes) < moved.dim() and sizes[-1][1] == stride * size and size > 1:
            sizes[-1] = [sizes[-1][0] * size, stride]
        elif size > 1:
            sizes.append([size, stride])
    version = None if components.is_inference() else components._version
    memory = (components.data_ptr(), str(sizes), moved.shape[-2:], version, components.device)
    key = (*memory, components.requires_grad, GradMode())
    if components.device.type == "meta" or key not in memo:
        memo[key] = (
            moved.reshape(-1, *moved.shape[-2:]).contiguous(),
            components,
        )  # held: its address stays
    return memo[key][0]


def as_term(x: QuaternionTensor, axis: int, places: torch.Size) -> Term | None:
    """An ordinary tensor that is repeated along some of the places, as a term; None if it is not.

    It has as many logical axes as places + 1, channels on `axis`. What is the same at all places gets a row per cloud.
    """
    components = once(x)
    own = [size for d, size in enumerate(components.shape[1:]) if d != axis]
    count = torch.Size(own).numel()
    if count >= places.numel() or count == 0 or components.shape[axis + 1] != x.stored_shape[axis + 1]:
        return None
    if count == 1 and len(own):
        own[0] = places[0]
        components = components.expand(components.shape[0], *own[:axis], components.shape[axis + 1], *own[axis:])
    index = torch.arange(torch.Size(own).numel(), device=components.device).view(own).expand(places)
    return Term(rows_of(components, axis, x.context.memo), index)


def once(x: QuaternionTensor) -> Tensor:
    """Components of an ordinary tensor without the repetitions of ``expand`` and ``repeat``: axes of size 1."""
    kept = x.still_deferred
    components: Tensor = kept.raw if isinstance(kept, Repeated) else x.components
    for d in range(1, components.dim()):
        if components.stride(d) == 0 and components.shape[d] > 1:
            components = components.narrow(d, 0, 1)
    return components


def form_of(x: Any, kind: Any = Gathered) -> Any:
    """The storage of a tensor if it is of that kind and was put off in the mode that gradients are in now, else None."""
    kept = x.still_deferred if isinstance(x, QuaternionTensor) else None
    return kept if isinstance(kept, kind) and x.grad_mode == GradMode() else None


def wrap(form: Any, like: QuaternionTensor, axis: int, layout: str = "") -> QuaternionTensor:
    """A tensor with this storage, channels on logical axis `axis`."""
    out = QuaternionTensor(form.raw, axis if layout else None, layout, like.context)
    out.channel_axis = axis
    return out.wait_for(form)
