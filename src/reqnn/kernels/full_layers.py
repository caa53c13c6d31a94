"""Linear layers of full quaternions on groups of neighbours, a chunk of rows at a time.

    first   s = U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩) + a_j + b_i of every edge, with (p, q, r) = p_j + p′_i
    linear  s′ = W·s + U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩) + b and v′ = V·v of every row, with (p, q, r) = P·v
    pooled  the pooling of either, which is not stored then: for inference

What one step leaves in the cache the next finds there; what the way back needs is computed again. Plain-torch twins are the
oracle and run on other devices.

Shapes:
    W, V: (O, C); P: (kinds·count, C); U: (O, kinds·count); a: (M, O); b: (P, O); the rest as in `reqnn.kernels.full_edges`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reqnn.kernels import edge_loops, full_edge_loops, full_loops
from reqnn.kernels.edges import rows
from reqnn.kernels.full_edges import Activation, Ends, activated
from reqnn.kernels.full_rows import invariants_reference
from reqnn.kernels.groups import Groups
from reqnn.kernels.products import outer, times
from reqnn.kernels.run import loops_run_on, run

Chunk = tuple[Tensor, Tensor, Tensor, int, int]
"""s of some rows, their edges as y and z, and the first and last of their centres."""


@dataclass(frozen=True, eq=False)
class First:
    """The first layer on groups: p, q (their two ends), a, b, U, and y, z for the imaginary part."""

    p: Tensor
    q: Tensor
    a: Tensor
    b: Tensor
    weight: Tensor
    count: int
    y: Tensor
    z: Tensor
    groups: Groups

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.weight.shape[0]

    def stored(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """s, y and z."""
        if not loops_run_on(self.p):
            found = invariants_reference(rows(self.p, self.q, self.groups), self.count)
            s = found @ self.weight.T + self.a[self.groups.neighbour] + self.b[self.groups.centre]
            return s, self.y, self.z
        s = _First.apply(self.p, self.q, self.a, self.b, self.weight, self.count, self.groups)
        return s, self.y, self.z

    def chunks(self) -> Iterator[Chunk]:
        """The same, a chunk at a time."""
        for s, _, first, last, _ in _first_chunks(self.p, self.q, self.weight, self.count, self.groups, (self.a, self.b)):
            yield s, self.y, self.z, first, last


def _first_chunks(
    p: Tensor, q: Tensor, weight: Tensor, count: int, groups: Groups, ends: tuple[Tensor, Tensor] | None
) -> Iterator[tuple[Tensor, Tensor, int, int, slice]]:
    """s, which is left out without `ends`, and the invariants."""
    room = p.new_empty(groups.widest(), p.shape[2])
    for first, last, part in groups.chunks():
        found, where = room[: part.stop - part.start], (groups.neighbour, groups.start, first, last)
        run(full_edge_loops.invariants, p, q, *where, count, found)
        s = found
        if ends is not None:
            s = times(found, weight)
            run(full_edge_loops.add_ends, s, *ends, *where)
        yield s, found, first, last, part


class _First(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, a: Tensor, b: Tensor, weight: Tensor, count: int, groups: Groups) -> Tensor:
        ctx.save_for_backward(p, q, weight)
        ctx.count, ctx.groups, ctx.shapes = count, groups, (a.shape, b.shape)
        out = p.new_empty(groups.rows, weight.shape[0])
        for s, _, _, _, part in _first_chunks(p, q, weight, count, groups, (a, b)):
            out[part] = s
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        p, q, weight = ctx.saved_tensors
        groups: Groups = ctx.groups
        ends, of_weight, gradient = Ends(p, q, groups), torch.zeros_like(weight), gradients[0].contiguous()
        of_a, of_b = (gradient.new_zeros(shape) for shape in ctx.shapes)
        for _, found, first, last, part in _first_chunks(p, q, weight, ctx.count, groups, None):
            given, of_e, where = gradient[part], ends.room(part), (groups.neighbour, groups.start, first, last)
            of_weight += outer(given, found)
            run(full_edge_loops.invariants_back, p, q, *where, ctx.count, times(given, weight.T), of_e)
            ends.take(of_e, first, last)
            run(edge_loops.add_to_ends, given[:, None], *where, of_a[:, None], of_b[:, None])
        return ends.of_y, ends.of_z, of_a, of_b, of_weight, None, None


@dataclass(frozen=True, eq=False)
class Next:
    """A later layer on groups: of φ(u) and γ(u)·e/size, u = scale·s + shift, with W, V, P, U and b."""

    s: Tensor
    y: Tensor
    z: Tensor | None
    scale: Tensor
    shift: Tensor
    weights: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    activation: Activation
    count: int
    groups: Groups

    @property
    def width(self) -> int:
        """The number of channels."""
        return self.weights[0].shape[0]

    def _before(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        z = self.y.new_empty(0, *self.y.shape[1:]) if self.z is None else self.z
        return self.s, self.y, z, self.scale, self.shift

    def stored(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """s′, v′ and no z."""
        if not loops_run_on(self.s):
            real, imaginary = activated(self.s, self.y, self.z, self.scale, self.shift, self.activation, self.groups)
            w, v, p, u, b = self.weights
            found = invariants_reference(imaginary @ p.T, self.count)
            return real @ w.T + found @ u.T + b, imaginary @ v.T, None
        s, imaginary = _Linear.apply(*self._before(), *self.weights, self.activation, self.count, self.groups)
        return s, imaginary, None

    def chunks(self) -> Iterator[Chunk]:
        """The same, a chunk at a time."""
        constants = (self.activation, self.count, self.groups)
        for real, imaginary, _, found, first, last, _ in _inputs(self._before(), self.weights[2], *constants):
            s, v = _products(real, imaginary, found, self.weights)
            yield s, v, v.new_empty(0, *v.shape[1:]), first, last


def _inputs(
    before: tuple[Tensor, ...], p: Tensor, activation: Activation, count: int, groups: Groups
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor, int, int, slice]]:
    """What a layer multiplies, a chunk of rows at a time: real and imaginary parts, P·v and its invariants."""
    s, y, z, scale, shift = before
    widest, width = groups.widest(), s.shape[1]
    room = s.new_empty(widest, width), s.new_empty(widest, 3, width), s.new_empty(widest, p.shape[0])
    constants = (scale, shift, activation.unit, activation.gated, activation.slope)
    for first, last, part in groups.chunks():
        real, imaginary, found = (buffer[: part.stop - part.start] for buffer in room)
        where = (groups.neighbour, groups.start, first, last)
        run(full_edge_loops.activate, s, y, z, *where, *constants, real, imaginary)
        maps = times(imaginary, p)
        run(full_loops.row_invariants, maps, count, found)
        yield real, imaginary, maps, found, first, last, part


def _products(real: Tensor, imaginary: Tensor, found: Tensor, weights: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    w, v, _, u, b = weights
    return times(real, w).add_(times(found, u)).add_(b), times(imaginary, v)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        before, weights, (activation, count, groups) = inputs[:5], inputs[5:10], inputs[10:]
        ctx.save_for_backward(*before, *weights)
        ctx.activation, ctx.count, ctx.groups = activation, count, groups
        out = before[0].new_empty(groups.rows, weights[0].shape[0])
        vectors = before[0].new_empty(groups.rows, 3, weights[0].shape[0])
        for real, imaginary, _, found, _, _, part in _inputs(before, weights[2], activation, count, groups):
            out[part], vectors[part] = _products(real, imaginary, found, weights)
        return out, vectors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple:
        (s, y, z, scale, shift), weights = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        groups, activation = ctx.groups, ctx.activation
        given_s, given_v = (gradient.contiguous() for gradient in gradients)
        of_w, of_v, of_p, of_u, of_b = of_weights = [torch.zeros_like(weight) for weight in weights]
        w, v, p, u, _ = weights
        ends, of_s, total = Ends(y, z, groups), torch.empty_like(s), torch.zeros(2, s.shape[1], dtype=torch.float64)
        constants = (scale, shift, activation.unit, activation.gated, activation.slope)
        inputs = _inputs((s, y, z, scale, shift), p, activation, ctx.count, groups)
        for real, imaginary, maps, found, first, last, part in inputs:
            of_real, of_vector, of_maps = given_s[part], given_v[part], torch.empty_like(maps)
            run(full_loops.row_invariants_back, maps, ctx.count, times(of_real, u.T), of_maps)
            of_w += outer(of_real, real)
            of_u += outer(of_real, found)
            of_b += of_real.sum(0)
            of_v += outer(of_vector, imaginary)
            of_p += outer(of_maps, imaginary)
            of_imaginary = times(of_vector, v.T).add_(times(of_maps, p.T))
            of_e, sums = ends.room(part), s.new_empty(last - first, 2, s.shape[1])
            where = (groups.neighbour, groups.start, first, last)
            given = (times(of_real, w.T), of_imaginary, of_s[part], of_e, sums)
            run(full_edge_loops.activate_back, s, y, z, *where, *constants, *given)
            ends.take(of_e, first, last)
            total += sums.double().sum(0)
        before = (of_s, ends.of_y, ends.of_z, total[1].to(s.dtype), total[0].to(s.dtype))
        return *before, *of_weights, None, None, None


def pooled(layer: First | Next, scale: Tensor, shift: Tensor, activation: Activation) -> tuple[Tensor, Tensor, Tensor]:
    """`reqnn.kernels.full_edges.pooled` of a layer that is not stored, without gradients, where loops run."""
    groups = layer.groups
    shape = (groups.centres, layer.width)
    largest, imaginary = scale.new_empty(shape), scale.new_empty(shape[0], 3, shape[1])
    winner = torch.empty(shape, dtype=torch.int32)
    constants = (scale, shift, activation.unit, activation.gated)
    for s, y, z, first, last in layer.chunks():
        where = (groups.neighbour, groups.start, groups.weight, groups.size, first, last)
        run(full_edge_loops.pool, s, y, z, *where, *constants, largest, winner, imaginary)
    return largest, imaginary, groups.places_of(winner)
