"""Full quaternions on gathered features: real parts row by row, imaginary parts as edges, batch-norm and activation put off.

s′ = W·s + b + U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩) per edge, from W·s, p, q, r and V·v per point
u = scale·s + shift, then φ(u) and γ(u)·e/size, computed by the pooling or the next layer in one loop
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from reqnn.kernels import full_edges, full_layers
from reqnn.kernels.edges import rows as edge_rows
from reqnn.kernels.full_edges import Activation, Measured
from reqnn.kernels.full_layers import First
from reqnn.kernels.groups import Chunk
from reqnn.kernels.run import loops_run_on
from reqnn.memory import fresh
from reqnn.nn.on_groups import OnGroups, Step, Steps, placed
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
class Next:
    """A later layer, of features that are put off."""

    before: FullGrouped
    weights: Weights

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.weights.vectors.shape[0]


@dataclass(frozen=True, eq=False)
class Total:
    """The sum of two features that are put off, the second one times a number."""

    before: FullGrouped
    other: FullGrouped
    factor: float

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.before.width


@dataclass(frozen=True, eq=False)
class FullGrouped(OnGroups):
    """Rows of full quaternions on groups of neighbours.

    Attributes:
        layer: what gives the real parts s (R, C) and the imaginary parts y_j + z_i, rows of their own if z is None.
        like: a tensor with the dtype and device of the rows.
        scale, shift: of the batch-norm, (C,); None without one.
        activation: what is put off for the imaginary part.
        phi: the activation of the real part, None without one.
        mode: whether gradients are recorded.
        cell: holds s, y and z once they are computed, for all that share them.
    """

    parts: ClassVar[int] = 4

    layer: First | Next | Total
    like: Tensor
    scale: Tensor | None = None
    shift: Tensor | None = None
    activation: Activation = field(default_factory=Activation)
    phi: Phi | None = None
    sources: tuple[Waiting, ...] = ()
    mode: GradMode = field(default_factory=GradMode)
    cell: dict[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.layer.width

    def new_empty(self, *shape: int) -> Tensor:
        """A tensor with the dtype and device of the rows."""
        return fresh(self.like, *shape)

    def stored(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """s, y and z; computed now, and once."""
        if "rows" not in self.cell:
            with self.mode():
                self.cell["rows"] = self._computed(self.layer)
        return self.cell["rows"]

    def _computed(self, layer: First | Next | Total) -> tuple[Tensor, Tensor, Tensor | None]:
        if isinstance(layer, First):
            return layer.stored()
        if self._walks:
            s, y = self.new_empty(self.groups.rows, self.width), self.new_empty(self.groups.rows, 3, self.width)
            for (real, imaginary, _), chunk in self.walk(self._plain(Steps(storing=True))):
                s[chunk.part], y[chunk.part] = real, imaginary
            return s, y, None
        if isinstance(layer, Next):
            return *full_layers.linear(layer.before._behind(), layer.weights.of_rows(), layer.weights.count), None
        return *full_layers.total(layer.before._behind(), layer.other._behind(), layer.factor), None

    def _affine(self) -> tuple[Tensor, Tensor]:
        scale = self.like.new_ones(self.width) if self.scale is None else self.scale
        return scale, self.like.new_zeros(self.width) if self.shift is None else self.shift

    @property
    def _leaky(self) -> bool:
        """Whether the loops know the activation of the real part."""
        return self.phi is None or self.activation.slope != 1

    def _behind(self) -> full_edges.Activated:
        """What the next layer takes: rows, and what is put off."""
        groups = self.groups if isinstance(self.layer, First) else self.groups.stored
        if self._leaky:
            return *self.stored(), *self._affine(), self.activation, groups
        return *self.rows(), None, self.like.new_ones(self.width), self.like.new_zeros(self.width), Activation(), groups.stored

    def rows(self) -> tuple[Tensor, Tensor]:
        """Both parts of every row: (R, C), (R, 3, C)."""
        s, y, z = self.stored()
        if self.scale is None and self.phi is None:
            return s, edge_rows(y, z, self.groups)
        real, imaginary = full_edges.activated(s, y, z, *self._affine(), self.activation, self.groups)
        return real if self._leaky or self.phi is None else self.phi(real), imaginary

    def values(self) -> Tensor:
        """All rows, (R, 4, C)."""
        return full_layers.joined(self.rows())

    def outer_sum(self, weights: Tensor) -> Tensor:
        """Σ_j value_j ⊗ w_j over the neighbours. Shapes: weights (P, K, W) → (P, 4, C, W)"""
        if not self._walks:
            return full_layers.outer_sum(self._behind(), weights)
        both = full_layers.summed_of_both(self.walk(self._activated(Steps())), weights, self.groups)
        return full_layers.joined(both)

    # -- a chunk of rows at a time, without gradients ------------------------------------------------------------------

    @property
    def _walks(self) -> bool:
        """Whether rows need not be stored, as nobody will ask for their gradient."""
        return not self.mode.grad and loops_run_on(self.like)

    def _plain(self, steps: Steps) -> Step:
        """s, y and z of a chunk."""
        return steps.of(id(self.cell), lambda: self._of_chunk(self.layer, steps))

    def _of_chunk(self, layer: First | Next | Total, steps: Steps) -> Callable[[Chunk], tuple[Tensor, Tensor, Tensor]]:
        none = self.new_empty(0, 3, self.width)
        if "rows" in self.cell or steps.again(self.cell):
            s, y, z = self.stored()
            return lambda chunk: (s[chunk.part], y[chunk.part], none) if z is None else (s[chunk.part], y, z)
        if isinstance(layer, First):
            return lambda chunk: (layer.of_chunk(chunk.of(layer.groups)), layer.y, layer.z)
        before = layer.before._activated(steps)
        if isinstance(layer, Next):
            weights = layer.weights.of_rows()

            def product(chunk: Chunk) -> tuple[Tensor, Tensor, Tensor]:
                real, imaginary = before(chunk)
                _, found = full_layers.maps_of(imaginary, weights[2], layer.weights.count)
                return *full_layers.products(real, imaginary, found, weights), none

            return product
        other = layer.other._activated(steps)

        def both(chunk: Chunk) -> tuple[Tensor, Tensor, Tensor]:
            (real, imaginary), (more, rotating) = before(chunk), other(chunk)
            return torch.add(real, more, alpha=layer.factor), torch.add(imaginary, rotating, alpha=layer.factor), none

        return both

    def _activated(self, steps: Steps) -> Step:
        """Both parts of a chunk behind what is put off."""

        def make() -> Callable[[Chunk], tuple[Tensor, Tensor]]:
            plain, affine, phi = self._plain(steps), self._affine(), None if self._leaky else self.phi

            def activated(chunk: Chunk) -> tuple[Tensor, Tensor]:
                real, imaginary = full_edges.activated_rows(plain(chunk), *affine, self.activation, chunk.of(self.groups))
                return real if phi is None else phi(real), imaginary

            return activated

        return steps.of((id(self.cell), id(self.scale), id(self.phi)), make)

    # -- layers ------------------------------------------------------------------------------------------------------

    def _made(self, layer: Next | Total, *sources: Waiting) -> FullGrouped:
        return FullGrouped(self.groups, self.place, self.origin, self.axis, layer, self.like, sources=sources)

    def linear(self, weights: Weights) -> FullGrouped:
        """The rule of linear maps, row by row."""
        return self._made(Next(self, weights), *self.sources)

    def plus(self, other: Summed, factor: float) -> FullGrouped | None:
        """Both row by row, if they are on the same groups in the same order."""
        if not isinstance(other, FullGrouped) or not self.beside(other):
            return None
        return self._made(Total(self, other, factor), *self.sources, *other.sources)

    def moments(self) -> Tensor:
        """Σ s and Σ s² over all places, (2, C) float64."""
        return full_edges.moments(self.stored()[0], self.groups)

    def normed(self, scale: Tensor, shift: Tensor, unit: float, measured: Measured | None) -> FullGrouped:
        """Behind a batch-norm."""
        return replace(self, scale=scale, shift=shift, activation=Activation(unit, measured=measured))

    def activated(self, phi: Phi, slope: float | None) -> FullGrouped:
        """Behind an activation; `slope` if it is a leaky ReLU."""
        return replace(self, phi=phi, activation=replace(self.activation, gated=True, slope=1.0 if slope is None else slope))

    def pooled(self) -> tuple[Tensor, Tensor, Tensor]:
        """The largest real parts (P, C), the mean imaginary parts (P, 3, C), and the winner's place in its group (P, C)."""
        if self._walks:
            largest, imaginary, winner = full_edges.pool(
                self.walk(self._plain(Steps())), *self._affine(), self.activation, self.groups
            )
            index = self.groups.places_of(winner)
        else:
            largest, imaginary, index = full_edges.pooled(*self.stored(), *self._affine(), self.activation, self.groups)
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
    return FullGrouped(groups, *placed(form, axis), form.axis, layer, y)
