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

from reqnn.kernels import edge_loops, full_edge_loops, full_loops
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.edges import Ends, or_empty, rows
from reqnn.kernels.full_edges import Activation, Chunks, Pull, activated, pool
from reqnn.kernels.full_rows import invariants_reference
from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.products import outer, times
from reqnn.kernels.run import loops_run_on, run


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
        tensors = (self.p, self.q, self.a, self.b, self.weight)
        return by_hand(_first, _first_back, tensors, self.count, self.groups), self.y, self.z

    def chunks(self) -> Chunks:
        """The same, a chunk at a time."""
        for s, _, chunk in _first_chunks(self.p, self.q, self.weight, self.count, self.groups, (self.a, self.b)):
            yield s, self.y, self.z, chunk


def _first_chunks(
    p: Tensor, q: Tensor, weight: Tensor, count: int, groups: Groups, ends: tuple[Tensor, Tensor] | None
) -> Iterator[tuple[Tensor, Tensor, Chunk]]:
    """s, which is left out without `ends`, and the invariants."""
    room = p.new_empty(groups.widest(), p.shape[2])
    for chunk in groups.chunks():
        s = found = room[: len(chunk)]
        run(full_edge_loops.invariants, p, q, *chunk.where, count, found)
        if ends is not None:
            s = times(found, weight)
            run(full_edge_loops.add_ends, s, *ends, *chunk.where)
        yield s, found, chunk


def _first(p: Tensor, q: Tensor, a: Tensor, b: Tensor, weight: Tensor, count: int, groups: Groups) -> Tensor:
    out = p.new_empty(groups.rows, weight.shape[0])
    for s, _, chunk in _first_chunks(p, q, weight, count, groups, (a, b)):
        out[chunk.part] = s
    return out


def _first_back(
    gradient: Tensor, p: Tensor, q: Tensor, a: Tensor, b: Tensor, weight: Tensor, count: int, groups: Groups
) -> tuple[Tensor, ...]:
    ends, of_a, of_b, of_weight = Ends(p, q), torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(weight)
    for _, found, chunk in _first_chunks(p, q, weight, count, groups, None):
        given, of_e = gradient[chunk.part], ends.room(chunk)
        of_weight += outer(given, found)
        run(full_edge_loops.invariants_back, p, q, *chunk.where, count, times(given, weight.T), of_e)
        ends.take(of_e, chunk)
        run(edge_loops.add_to_ends, given[:, None], *chunk.where, of_a[:, None], of_b[:, None])
    return ends.of_y, ends.of_z, of_a, of_b, of_weight


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
        return self.s, self.y, or_empty(self.y, self.z), self.scale, self.shift

    def stored(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """s′, v′ and no z."""
        if not loops_run_on(self.s):
            real, imaginary = activated(self.s, self.y, self.z, self.scale, self.shift, self.activation, self.groups)
            w, v, p, u, b = self.weights
            found = invariants_reference(imaginary @ p.T, self.count)
            return real @ w.T + found @ u.T + b, imaginary @ v.T, None
        tensors = (*self._before(), *self.weights)
        s, imaginary = by_hand(_linear, _linear_back, tensors, self.activation, self.count, self.groups)
        return s, imaginary, None

    def chunks(self) -> Chunks:
        """The same, a chunk at a time."""
        constants = (self.activation, self.count, self.groups)
        for real, imaginary, _, found, chunk in _inputs(self._before(), self.weights[2], *constants):
            s, v = _products(real, imaginary, found, self.weights)
            yield s, v, or_empty(v, None), chunk


def _inputs(
    before: tuple[Tensor, ...], p: Tensor, activation: Activation, count: int, groups: Groups
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor, Chunk]]:
    """What a layer multiplies, a chunk of rows at a time: real and imaginary parts, P·v and its invariants."""
    s, y, z, scale, shift = before
    widest, width = groups.widest(), s.shape[1]
    room = s.new_empty(widest, width), s.new_empty(widest, 3, width), s.new_empty(widest, p.shape[0])
    for chunk in groups.chunks():
        real, imaginary, found = (buffer[: len(chunk)] for buffer in room)
        run(full_edge_loops.activate, s, y, z, *chunk.where, scale, shift, *activation.constants, real, imaginary)
        maps = times(imaginary, p)
        run(full_loops.row_invariants, maps, count, found)
        yield real, imaginary, maps, found, chunk


def _products(real: Tensor, imaginary: Tensor, found: Tensor, weights: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    w, v, _, u, b = weights
    return times(real, w).add_(times(found, u)).add_(b), times(imaginary, v)


def _linear(*inputs: Any) -> tuple[Tensor, Tensor]:
    before, weights, (activation, count, groups) = inputs[:5], inputs[5:10], inputs[10:]
    out = before[0].new_empty(groups.rows, weights[0].shape[0])
    vectors = before[0].new_empty(groups.rows, 3, weights[0].shape[0])
    for real, imaginary, _, found, chunk in _inputs(before, weights[2], activation, count, groups):
        out[chunk.part], vectors[chunk.part] = _products(real, imaginary, found, weights)
    return out, vectors


def _linear_back(given_s: Tensor, given_v: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    before, weights, (activation, count, groups) = inputs[:5], inputs[5:10], inputs[10:]
    of_w, of_v, of_p, of_u, of_b = of_weights = [torch.zeros_like(weight) for weight in weights]
    (w, v, p, u, _), pull = weights, Pull((*before,), activation)
    for real, imaginary, maps, found, chunk in _inputs(before, p, activation, count, groups):
        of_real, of_vector, of_maps = given_s[chunk.part], given_v[chunk.part], torch.empty_like(maps)
        run(full_loops.row_invariants_back, maps, count, times(of_real, u.T), of_maps)
        of_w += outer(of_real, real)
        of_u += outer(of_real, found)
        of_b += of_real.sum(0)
        of_v += outer(of_vector, imaginary)
        of_p += outer(of_maps, imaginary)
        of_imaginary = times(of_vector, v.T).add_(times(of_maps, p.T))
        pull.activation_back(times(of_real, w.T), of_imaginary, chunk)
    return *pull.finish(), *of_weights


def pooled(layer: First | Next, scale: Tensor, shift: Tensor, activation: Activation) -> tuple[Tensor, Tensor, Tensor]:
    """`reqnn.kernels.full_edges.pooled` of a layer that is not stored, without gradients, where loops run."""
    largest, imaginary, winner = pool(layer.chunks(), scale, shift, activation, layer.groups)
    return largest, imaginary, layer.groups.places_of(winner)
