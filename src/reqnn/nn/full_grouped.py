"""Full quaternions on gathered features: real parts row by row, imaginary parts as edges, batch-norm and activation put off.

s′ = W·s + b + U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩) per edge, from W·s, p, q, r and V·v per point
u = scale·s + shift, then φ(u) and γ(u)·e/size, computed by the pooling or the next layer in one loop
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from reqnn.kernels import full_edges
from reqnn.kernels.edges import rows as edge_rows
from reqnn.kernels.full_edges import Activation
from reqnn.kernels.full_rows import invariants as row_invariants
from reqnn.kernels.full_rows import invariants_reference
from reqnn.kernels.groups import Groups
from reqnn.kernels.products import times
from reqnn.kernels.rows import from_rows
from reqnn.kernels.run import loops_run_on
from reqnn.tensor.gathered import Gathered, Summed, Waiting, constant_along, same_index

Phi = Callable[[Tensor], Tensor]
"""The activation of the real part."""


@dataclass(frozen=True)
class Weights:
    """Of one linear layer. Shapes: real (O, C) or None, vectors (O, C), maps (kinds·count, C), invariants (O, kinds·count)"""

    real: Tensor | None
    vectors: Tensor
    maps: Tensor
    invariants: Tensor
    bias: Tensor | None
    count: int


@dataclass(frozen=True, eq=False)
class FullGrouped(Summed):
    """Rows of full quaternions on groups of neighbours.

    Attributes:
        groups, place, origin, axis: as of `reqnn.nn.grouped.Grouped`.
        s: (R, C), the real parts.
        y, z: the imaginary parts, y_j + z_i; rows of their own if z is None and the groups are stored.
        scale, shift: of the batch-norm, (C,); None without one.
        activation: what is put off for the imaginary part.
        phi: the activation of the real part, None without one.
    """

    groups: Groups
    place: Tensor
    origin: Tensor
    axis: int
    s: Tensor
    y: Tensor
    z: Tensor | None
    scale: Tensor | None = None
    shift: Tensor | None = None
    activation: Activation = field(default_factory=Activation)
    phi: Phi | None = None
    sources: tuple[Waiting, ...] = ()

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.s.shape[1]

    @property
    def places(self) -> torch.Size:
        """The logical shape without the channels."""
        return self.place.shape

    @cached_property
    def raw(self) -> Tensor:
        """Something with the shape, dtype and device of the components that takes no memory."""
        return self.s.new_empty(1).expand(4, *self.places[: self.axis], self.width, *self.places[self.axis :])

    def _affine(self) -> tuple[Tensor, Tensor]:
        scale = self.s.new_ones(self.width) if self.scale is None else self.scale
        return scale, self.s.new_zeros(self.width) if self.shift is None else self.shift

    def rows(self) -> tuple[Tensor, Tensor]:
        """Both parts of every row: (R, C), (R, 3, C)."""
        if self.scale is None and self.phi is None:
            return self.s, edge_rows(self.y, self.z, self.groups)
        leaky = self.phi is None or self.activation.slope != 1
        real, imaginary = full_edges.activated(self.s, self.y, self.z, *self._affine(), self.activation, self.groups)
        return real if leaky or self.phi is None else self.phi(real), imaginary

    def components(self) -> Tensor:
        """The values, (4, *shape)."""
        real, imaginary = self.rows()
        both = torch.cat([real[:, None], imaginary], 1)
        if self.groups.padded:
            both = both.index_select(0, self.groups.place.reshape(-1))
        return from_rows(both.index_select(0, self.place.reshape(-1)).view(*self.places, 4, -1), self.axis)

    def squared_norm(self) -> Tensor:
        """‖q‖² of each element."""
        return self.components().square().sum(0)

    def mapped(self, function: Callable[[Tensor], Tensor], axis: int) -> FullGrouped:
        """Apply a structural operation to the places; channels are on `axis` then."""
        return replace(self, place=function(self.place), axis=axis)

    def total(self, axis: int, weights: Tensor | None = None) -> Tensor | None:
        """No loop of its own."""
        return None

    def plus(self, other: Summed, factor: float) -> FullGrouped | None:
        """Both row by row, if they are on the same groups in the same order."""
        if not isinstance(other, FullGrouped) or self.groups.index is not other.groups.index or self.axis != other.axis:
            return None
        a, b = self.place, other.place
        if (a.data_ptr(), a.shape, a.stride()) != (b.data_ptr(), b.shape, b.stride()) or self.width != other.width:
            return None
        (real, imaginary), (more, turned) = self.rows(), other.rows()
        s, y = torch.add(real, more, alpha=factor), torch.add(imaginary, turned, alpha=factor)
        return FullGrouped(self.groups.stored, self.place, self.origin, self.axis, s, y, None)

    # -- layers ------------------------------------------------------------------------------------------------------

    def linear(self, weights: Weights) -> FullGrouped:
        """The rule of linear maps, row by row."""
        real, imaginary = self.rows()
        vectors, maps = times(imaginary, weights.vectors), times(imaginary, weights.maps)
        loops = loops_run_on(maps) and maps.numel() > 0
        found = row_invariants(maps, weights.count) if loops else invariants_reference(maps, weights.count)
        s = times(found, weights.invariants)
        if weights.real is not None:
            s = s + times(real.contiguous(), weights.real)
        if weights.bias is not None:
            s = s + weights.bias
        return FullGrouped(self.groups.stored, self.place, self.origin, self.axis, s, vectors, None)

    def moments(self) -> Tensor:
        """Σ s and Σ s² over all places, (2, C) float64."""
        return full_edges.moments(self.s, self.groups)

    def normed(self, scale: Tensor, shift: Tensor, unit: float) -> FullGrouped:
        """Behind a batch-norm."""
        return replace(self, scale=scale, shift=shift, activation=Activation(unit))

    def activated(self, phi: Phi, slope: float | None) -> FullGrouped:
        """Behind an activation; `slope` if it is a leaky ReLU."""
        done = Activation(self.activation.unit, True, 1.0 if slope is None else slope)
        return replace(self, phi=phi, activation=done)

    def groups_along(self, axis: int) -> bool:
        """Whether an axis of the places runs over the neighbours of each centre, the centres in their order."""
        return self.groups.along(self.place, self.origin, axis)

    def pooled(self) -> tuple[Tensor, Tensor, Tensor]:
        """The largest real parts (P, C), the mean imaginary parts (P, 3, C), and the winner's place in its group (P, C)."""
        found = full_edges.pooled(self.s, self.y, self.z, *self._affine(), self.activation, self.groups)
        largest, imaginary, index = found
        return largest if self.phi is None else self.phi(largest), imaginary, index


def separates(form: Gathered, axis: int) -> bool:
    """Whether all terms either do not change along an axis or read the same neighbours along it."""
    varying = [t.index for block in form.blocks for t in block if not constant_along(t.index, axis)]
    return bool(varying) and all(same_index(varying[0], index) for index in varying[1:])


def first_layer(form: Gathered, weights: Weights, axis: int) -> FullGrouped:
    """The rule of linear maps on gathered features, every map before the gather; `axis` is that of the neighbours."""
    imaginary = slice(-3, None)
    y, z, groups = form.linear(weights.vectors, imaginary).grouped_along(axis)
    p, q, _ = form.linear(weights.maps, imaginary).grouped_along(axis, groups)
    s = times(full_edges.invariants(p, q, weights.count, groups), weights.invariants)
    if weights.real is not None:
        a, b, _ = form.linear(weights.real, slice(0, 1)).grouped_along(axis, groups)
        own = None if b is None else b[:, 0]
        s = full_edges.add_ends(s, a[:, 0], own, groups)
    if weights.bias is not None:
        s = s + weights.bias
    shape = form.places
    origin = torch.arange(shape.numel(), device=s.device)
    place = origin.view(*shape[:axis], *shape[axis + 1 :], shape[axis]).movedim(-1, axis)
    return FullGrouped(groups, place, origin, form.axis, s, y, z)
