"""Linear layers of full quaternions on groups of neighbours, a chunk of rows at a time.

    First      s = U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩) + a_j + b_i of every edge, with (p, q, r) = p_j + p′_i
    linear     s′ = W·s + U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩) + b and v′ = V·v of every row, with (p, q, r) = P·v
    total      the sum of two features behind what is put off
    outer_sum  Σ_j value_j ⊗ w_j over each group

What one step leaves in the cache the next finds there; what the way back needs is computed again. Plain-torch twins are the
oracle and run on other devices.

Shapes:
    W, V: (O, C); P: (kinds·count, C); U: (O, kinds·count); a: (M, O); b: (P, O); the rest as in `reqnn.kernels.full_edges`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import edge_loops, full_edge_loops, full_loops
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.edges import Ends, rows, summed_outer_back, summed_outer_of
from reqnn.kernels.full_edges import Activated, Pull, activated, activated_of, as_loops_want
from reqnn.kernels.full_rows import invariants_reference
from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.products import add_outer, add_times, times
from reqnn.kernels.run import loops_run_on, run
from reqnn.memory import fresh


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

    def of_chunk(self, chunk: Chunk) -> Tensor:
        """s of a chunk, without gradients."""
        return _first_of(self.p, self.q, self.a, self.b, self.weight, self.count, chunk)


def _invariants(p: Tensor, q: Tensor, count: int, chunk: Chunk) -> Tensor:
    out = p.new_empty(len(chunk), p.shape[2])
    run(full_edge_loops.invariants, p, q, *chunk.where, count, out)
    return out


def _first_of(
    p: Tensor, q: Tensor, a: Tensor, b: Tensor, weight: Tensor, count: int, chunk: Chunk, out: Tensor | None = None
) -> Tensor:
    s = times(_invariants(p, q, count, chunk), weight, out)
    run(full_edge_loops.add_ends, s, a, b, *chunk.where)
    return s


def _first(p: Tensor, q: Tensor, a: Tensor, b: Tensor, weight: Tensor, count: int, groups: Groups) -> Tensor:
    out = fresh(p, groups.rows, weight.shape[0])
    for chunk in groups.chunks():
        _first_of(p, q, a, b, weight, count, chunk, out[chunk.part])
    return out


def _first_back(
    gradient: Tensor, p: Tensor, q: Tensor, a: Tensor, b: Tensor, weight: Tensor, count: int, groups: Groups
) -> tuple[Tensor, ...]:
    ends, of_a, of_b, of_weight = Ends(p, q), torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(weight)
    back = weight.T.contiguous()
    for chunk in groups.chunks():
        given, of_e = gradient[chunk.part], ends.room(chunk)
        add_outer(of_weight, given, _invariants(p, q, count, chunk))
        run(full_edge_loops.invariants_back, p, q, *chunk.where, count, times(given, back), of_e)
        ends.take(of_e, chunk)
        run(edge_loops.add_to_ends, given[:, None], *chunk.where, of_a[:, None], of_b[:, None])
    return ends.of_y, ends.of_z, of_a, of_b, of_weight


def maps_of(imaginary: Tensor, p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """P·v of rows and its invariants, without gradients."""
    maps = times(imaginary, p)
    found = maps.new_empty(len(maps), len(p))
    run(full_loops.row_invariants, maps, count, found)
    return maps, found


def products(
    real: Tensor, imaginary: Tensor, found: Tensor, weights: tuple[Tensor, ...], out: Sequence[Tensor | None] = (None, None)
) -> tuple[Tensor, Tensor]:
    """s′ and v′ of rows, without gradients."""
    w, v, _, u, b = weights
    return add_times(times(real, w, out[0]), found, u).add_(b), times(imaginary, v, out[1])


def _linear(*inputs: Any) -> tuple[Tensor, Tensor]:
    before, weights, (activation, count, groups) = inputs[:5], inputs[5:10], inputs[10:]
    out = fresh(before[0], groups.rows, weights[0].shape[0])
    vectors = fresh(before[0], groups.rows, 3, weights[0].shape[0])
    for chunk in groups.chunks():
        real, imaginary = activated_of(before, activation, chunk)
        _, found = maps_of(imaginary, weights[2], count)
        products(real, imaginary, found, weights, (out[chunk.part], vectors[chunk.part]))
    return out, vectors


def _linear_back(given_s: Tensor, given_v: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    before, weights, (activation, count, groups) = inputs[:5], inputs[5:10], inputs[10:]
    of_w, of_v, of_p, of_u = (torch.zeros_like(weight) for weight in weights[:4])
    pull, p, (w, v, p_back, u) = (
        Pull((*before,), activation, groups),
        weights[2],
        (weight.T.contiguous() for weight in weights[:4]),
    )
    for chunk in groups.chunks():
        real, imaginary = activated_of(before, activation, chunk)
        maps, found = maps_of(imaginary, p, count)
        of_real, of_vector, of_maps = given_s[chunk.part], given_v[chunk.part], torch.empty_like(maps)
        run(full_loops.row_invariants_back, maps, count, times(of_real, u), of_maps)
        for total, a, b in (
            (of_w, of_real, real),
            (of_u, of_real, found),
            (of_v, of_vector, imaginary),
            (of_p, of_maps, imaginary),
        ):
            add_outer(total, a, b)
        of_imaginary = add_times(times(of_vector, v), of_maps, p_back)
        pull.activation_back(times(of_real, w), of_imaginary, chunk)
    of_b = given_s.sum(0)
    return *pull.finish(groups), of_w, of_v, of_p, of_u, of_b


def linear(before: Activated, weights: tuple[Tensor, ...], count: int) -> tuple[Tensor, Tensor]:
    """s′ and v′ of every row behind what is put off, with W, V, P, U and b: (R, O), (R, 3, O)."""
    if not loops_run_on(before[0]):
        real, imaginary = activated(*before)
        w, v, p, u, b = weights
        found = invariants_reference(imaginary @ p.T, count)
        return real @ w.T + found @ u.T + b, imaginary @ v.T
    tensors, activation, groups = as_loops_want(before)
    out: tuple[Tensor, Tensor] = by_hand(_linear, _linear_back, (*tensors, *weights), activation, count, groups)
    return out


def _total(*inputs: Any) -> tuple[Tensor, Tensor]:
    one, two, (activation, groups, other, others), factor = inputs[:5], inputs[5:10], inputs[10], inputs[11]
    out = fresh(inputs[0], groups.rows, inputs[0].shape[1])
    vectors = fresh(out, groups.rows, 3, out.shape[1])
    for chunk in groups.chunks():
        parts = zip(activated_of(one, activation, chunk), activated_of(two, other, chunk.of(others)), strict=True)
        for whole, (a, b) in zip((out, vectors), parts, strict=True):
            torch.add(a, b, alpha=factor, out=whole[chunk.part])
    return out, vectors


def _total_back(of_real: Tensor, of_imaginary: Tensor, *saved: Any) -> tuple[Tensor, ...]:
    one, two, (activation, groups, other, others), factor = saved[:5], saved[5:10], saved[10], saved[11]
    pulls = Pull(one, activation, groups), Pull(two, other, others)
    for chunk in groups.chunks():
        real, imaginary = of_real[chunk.part], of_imaginary[chunk.part]
        pulls[0].activation_back(real, imaginary, chunk)
        pulls[1].activation_back(factor * real, factor * imaginary, chunk.of(others))
    return *pulls[0].finish(groups), *pulls[1].finish(others)


def total(a: Activated, b: Activated, factor: float) -> tuple[Tensor, Tensor]:
    """a + factor·b of every row, each behind what is put off, for the same groups: (R, C), (R, 3, C)."""
    if not loops_run_on(a[0]):
        (real, imaginary), (more, rotating) = activated(*a), activated(*b)
        return real + factor * more, imaginary + factor * rotating
    (one, *first), (two, *second) = as_loops_want(a), as_loops_want(b)
    out: tuple[Tensor, Tensor] = by_hand(_total, _total_back, (*one, *two), (*first, *second), factor)
    return out


def summed_of_both(rows: Iterable[tuple[tuple[Tensor, Tensor], Chunk]], w: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """Σ_j value_j ⊗ w_j of both parts, without gradients: (P, C, W), (P, 3, C, W)."""
    out: list[Tensor] = []
    for both, chunk in rows:
        out = out or [w.new_empty(groups.centres, *h.shape[1:], w.shape[2]) for h in both]
        for h, total in zip(both, out, strict=True):
            summed_outer_of(h, w, total, chunk)
    real, imaginary = out
    return real, imaginary


def _outer_sum(*inputs: Any) -> tuple[Tensor, Tensor]:
    before, w, activation, groups = inputs[:5], *inputs[5:]
    return summed_of_both(((activated_of(before, activation, chunk), chunk) for chunk in groups.chunks()), w, groups)


def _outer_sum_back(of_real: Tensor, of_imaginary: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    before, w, activation, groups = inputs[:5], *inputs[5:]
    pull, of_w = Pull((*before,), activation, groups), torch.zeros_like(w)
    for chunk in groups.chunks():
        parts = zip((of_real, of_imaginary), activated_of(before, activation, chunk), strict=True)
        real, imaginary = (summed_outer_back(given, h, w, of_w, torch.empty_like(h), chunk) for given, h in parts)
        pull.activation_back(real, imaginary, chunk)
    return *pull.finish(groups), of_w


def outer_sum(before: Activated, w: Tensor) -> Tensor:
    """Σ_j value_j ⊗ w_j over each group behind what is put off; no padding was removed. Shapes: w (P, K, W) → (P, 4, C, W)"""
    tensors, activation, groups = as_loops_want(before)
    if not loops_run_on(before[0]):
        return torch.einsum("pkdc,pkw->pdcw", joined(activated(*before))[groups.place], w)
    return joined(by_hand(_outer_sum, _outer_sum_back, (*tensors, w.contiguous()), activation, groups))


def joined(both: tuple[Tensor, Tensor]) -> Tensor:
    """Real parts (P, *) and imaginary ones (P, 3, *) in one tensor (P, 4, *)."""
    return torch.cat([both[0][:, None], both[1]], 1)
