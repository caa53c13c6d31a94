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

from reqnn.kernels import full_edges, full_layers
from reqnn.kernels.edges import rows as edge_rows
from reqnn.kernels.full_edges import Activation
from reqnn.kernels.full_layers import First, Next
from reqnn.kernels.groups import Groups
from reqnn.kernels.rows import from_rows
from reqnn.kernels.run import loops_run_on
from reqnn.tensor.gathered import Gathered, Summed, Waiting
from reqnn.tensor.quaternion_tensor import GradMode
from reqnn.tensor.terms import constant_along, same_index

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

    def of_rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """W, V, P, U and b of a layer on full quaternions."""
        assert self.real is not None
        bias = self.real.new_zeros(len(self.real)) if self.bias is None else self.bias
        return self.real, self.vectors, self.maps, self.invariants, bias


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows of both parts: s (R, C) and y (R, 3, C)."""

    s: Tensor
    y: Tensor

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.s.shape[1]

    def stored(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """s, y and no z."""
        return self.s, self.y, None


@dataclass(frozen=True, eq=False)
class FullGrouped(Summed):
    """Rows of full quaternions on groups of neighbours.

    Attributes:
        groups, place, origin, axis, mode: as of `reqnn.nn.grouped.Grouped`.
        layer: what gives the real parts s (R, C) and the imaginary parts y_j + z_i, rows of their own if z is None.
        scale, shift: of the batch-norm, (C,); None without one.
        activation: what is put off for the imaginary part.
        phi: the activation of the real part, None without one.
        cell: holds s, y and z once they are computed, for all that share them.
    """

    groups: Groups
    place: Tensor
    origin: Tensor
    axis: int
    layer: First | Next | Stored
    like: Tensor
    scale: Tensor | None = None
    shift: Tensor | None = None
    activation: Activation = field(default_factory=Activation)
    phi: Phi | None = None
    sources: tuple[Waiting, ...] = ()
    mode: GradMode = field(default_factory=GradMode)
    cell: dict[str, tuple[Tensor, Tensor, Tensor | None]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.layer.width

    @property
    def places(self) -> torch.Size:
        """The logical shape without the channels."""
        return self.place.shape

    @cached_property
    def raw(self) -> Tensor:
        """Something with the shape, dtype and device of the components that takes no memory."""
        return self.like.new_empty(1).expand(4, *self.places[: self.axis], self.width, *self.places[self.axis :])

    def parts(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """s, y and z; computed now, and once."""
        if "parts" not in self.cell:
            with self.mode():
                self.cell["parts"] = self.layer.stored()
        return self.cell["parts"]

    def _affine(self) -> tuple[Tensor, Tensor]:
        scale = self.like.new_ones(self.width) if self.scale is None else self.scale
        return scale, self.like.new_zeros(self.width) if self.shift is None else self.shift

    @property
    def _leaky(self) -> bool:
        """Whether the loops know the activation of the real part."""
        return self.phi is None or self.activation.slope != 1

    def rows(self) -> tuple[Tensor, Tensor]:
        """Both parts of every row: (R, C), (R, 3, C)."""
        s, y, z = self.parts()
        if self.scale is None and self.phi is None:
            return s, edge_rows(y, z, self.groups)
        real, imaginary = full_edges.activated(s, y, z, *self._affine(), self.activation, self.groups)
        return real if self._leaky or self.phi is None else self.phi(real), imaginary

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
        (real, imaginary), (more, rotating) = self.rows(), other.rows()
        total = Stored(torch.add(real, more, alpha=factor), torch.add(imaginary, rotating, alpha=factor))
        return FullGrouped(self.groups.stored, self.place, self.origin, self.axis, total, self.like)

    # -- layers ------------------------------------------------------------------------------------------------------

    def linear(self, weights: Weights) -> FullGrouped:
        """The rule of linear maps, row by row."""
        (scale, shift), activation, groups = self._affine(), self.activation, self.groups
        s, y, z = self.parts()
        if not self._leaky:
            (s, y), z = self.rows(), None
            scale, shift, activation, groups = torch.ones_like(scale), torch.zeros_like(shift), Activation(), groups.stored
        layer = Next(s, y, z, scale, shift, weights.of_rows(), activation, weights.count, groups)
        return FullGrouped(self.groups.stored, self.place, self.origin, self.axis, layer, self.like)

    def moments(self) -> Tensor:
        """Σ s and Σ s² over all places, (2, C) float64."""
        return full_edges.moments(self.parts()[0], self.groups)

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
        recorded = self.mode.grad or torch.is_grad_enabled()
        if recorded or "parts" in self.cell or isinstance(self.layer, Stored) or not loops_run_on(self.like):
            found = full_edges.pooled(*self.parts(), *self._affine(), self.activation, self.groups)
        else:
            found = full_layers.pooled(self.layer, *self._affine(), self.activation)
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
    a, b = y.new_zeros(len(y), weights.invariants.shape[0]), y.new_zeros(groups.centres, weights.invariants.shape[0])
    if weights.real is not None:
        near, own, _ = form.linear(weights.real, slice(0, 1)).grouped_along(axis, groups)
        a, b = near[:, 0].contiguous(), b if own is None else own[:, 0].contiguous()
    if weights.bias is not None:
        b = b + weights.bias
    z = y.new_zeros(groups.centres, *y.shape[1:]) if z is None else z
    q = p.new_zeros(groups.centres, *p.shape[1:]) if q is None else q
    layer = First(p, q, a, b, weights.invariants, weights.count, y, z, groups)
    shape = form.places
    origin = torch.arange(shape.numel(), device=y.device)
    place = origin.view(*shape[:axis], *shape[axis + 1 :], shape[axis]).movedim(-1, axis)
    return FullGrouped(groups, place, origin, form.axis, layer, y)
