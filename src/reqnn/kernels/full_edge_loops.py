"""The compiled loops behind `reqnn.kernels.full_edges`: real and imaginary parts of edges. See `reqnn.kernels.edge_loops`.

s (R, C) is the real part of every row, u = scale·s + shift what the batch-norm makes of it. The imaginary part is the edge
e = y[j] + z[i], divided by its size √(1/C Σ_c ‖e_c‖² + unit) if unit > 0, and times the gate γ(u) = ½ + ½·u/√(1 + u²) if gated.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.kernels.edge_loops import _edge, _sum
from reqnn.kernels.full_loops import _found, _pulled

ROWS = 64  # of a task


@loop(fastmath={"contract"})
def invariants(y, z, neighbour, start, first, last, count, out):  # type: ignore[no-untyped-def]
    """The invariants of the rows of some centres: (rows, kinds·count)."""
    width = y.shape[2]
    for i in prange(first, last):
        room = np.empty((1, 3, width), y.dtype)
        for r in range(start[i], start[i + 1]):
            _sum(y, z, neighbour[r], i, room[0])
            _found(room, 0, count, out, r - start[first])


@loop(fastmath={"contract"})
def invariants_back(y, z, neighbour, start, first, last, count, gradient, of_e):  # type: ignore[no-untyped-def]
    """The way back through `invariants` for the rows of some centres: (rows, 3, kinds·count)."""
    width = y.shape[2]
    for i in prange(first, last):
        room = np.empty((1, 3, width), y.dtype)
        for r in range(start[i], start[i + 1]):
            _sum(y, z, neighbour[r], i, room[0])
            _pulled(room, 0, count, gradient, r - start[first], of_e)


@loop(fastmath={"contract"})
def add_ends(s, a, b, neighbour, start, first, last):  # type: ignore[no-untyped-def]
    """s + a[j] + b[i] of the rows of some centres, in place of s (rows, C)."""
    channels = s.shape[1]
    for i in prange(first, last):
        bi = b[i]
        for r in range(start[i], start[i + 1]):
            row, aj = s[r - start[first]], a[neighbour[r]]
            for c in range(channels):
                row[c] += aj[c] + bi[c]


@loop(fastmath={"contract", "reassoc"})
def moments(s, weight, sums):  # type: ignore[no-untyped-def]
    """Σ weight·s and Σ weight·s², (blocks, 2, C) float64."""
    rows, channels = s.shape
    size = (rows + sums.shape[0] - 1) // sums.shape[0]
    for block in prange(sums.shape[0]):
        once, twice = np.zeros(channels, s.dtype), np.zeros(channels, s.dtype)
        for r in range(block * size, min((block + 1) * size, rows)):
            row, w = s[r], weight[r]
            for c in range(channels):
                once[c] += w * row[c]
                twice[c] += w * row[c] * row[c]
        for c in range(channels):
            sums[block, 0, c], sums[block, 1, c] = once[c], twice[c]


@compiled(fastmath={"contract", "reassoc"})
def _size(e, unit):  # type: ignore[no-untyped-def]
    """1 / √(1/C Σ_c ‖e_c‖² + unit)."""
    total = e.dtype.type(0)
    for d in range(3):
        row = e[d]
        for c in range(row.shape[0]):
            total += row[c] * row[c]
    return e.dtype.type(1) / np.sqrt(total / e.dtype.type(e.shape[1]) + unit)


@compiled(fastmath={"contract", "reassoc"})
def _inner(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for c in range(a.shape[0]):
        total += a[c] * b[c]
    return total


@loop(fastmath={"contract"})
def activate(s, y, z, neighbour, start, first, last, scale, shift, unit, gated, slope, real, imaginary):  # type: ignore[no-untyped-def]
    """Both parts of the rows of some centres behind batch-norm, leaky ReLU (slope) and gate: (rows, C), (rows, 3, C)."""
    channels = s.shape[1]
    one, half = s.dtype.type(1), s.dtype.type(0.5)
    for i in prange(first, last):
        room, gate = np.empty((3, channels), s.dtype), np.empty(channels, s.dtype)
        for r in range(start[i], start[i + 1]):
            e, here, out = _edge(y, z, neighbour[r], i, r, room), s[r], real[r - start[first]]
            factor = _size(e, unit) if unit > 0 else one
            for c in range(channels):
                u = scale[c] * here[c] + shift[c]
                out[c] = u if u > 0 else slope * u
                gate[c] = factor * (half + half * u / np.sqrt(one + u * u)) if gated else factor
            for d in range(3):
                row, to = e[d], imaginary[r - start[first], d]
                for c in range(channels):
                    to[c] = gate[c] * row[c]


@loop(fastmath={"contract"})
def activate_back(  # type: ignore[no-untyped-def]
    s, y, z, neighbour, start, first, last, scale, shift, unit, gated, slope, of_real, of_imaginary, of_s, of_e, sums
):
    """The way back through `activate`, for given gradients of these rows: of_s (rows, C), of_e (rows, 3, C).

    sums (last - first, 2, C): Σ ∂u and Σ ∂u·s of each centre. With the gradient g, γ′ = ½(1 + u²)^(−3/2) and the size f:
    u gets f·γ′·⟨g, e⟩, e gets f·γ·g − f³/C·Σ_c γ⟨g, e⟩·e. of_e may be of_imaginary.
    """
    channels = s.shape[1]
    one, half, zero, width = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(0), s.dtype.type(s.shape[1])
    for i in prange(first, last):
        room, work = np.empty((3, channels), s.dtype), np.empty((3, channels), s.dtype)
        gate, rise, dot = work[0], work[1], work[2]
        once, twice = sums[i - first, 0], sums[i - first, 1]
        once[:] = 0
        twice[:] = 0
        for r in range(start[i], start[i + 1]):
            e, here, q = _edge(y, z, neighbour[r], i, r, room), s[r], r - start[first]
            given, out = of_real[q], of_s[q]
            g0, g1, g2 = of_imaginary[q, 0], of_imaginary[q, 1], of_imaginary[q, 2]
            e0, e1, e2 = e[0], e[1], e[2]
            for c in range(channels):
                dot[c] = g0[c] * e0[c] + g1[c] * e1[c] + g2[c] * e2[c]
            if gated:
                for c in range(channels):
                    u = scale[c] * here[c] + shift[c]
                    k = one / np.sqrt(one + u * u)
                    gate[c] = half + half * u * k
                    rise[c] = half * k * k * k
            else:
                gate[:] = one
                rise[:] = zero
            factor, shrink = one, zero
            if unit > 0:
                factor = _size(e, unit)
                shrink = factor * factor * factor / width * _inner(gate, dot)
            for c in range(channels):
                u = scale[c] * here[c] + shift[c]
                of_u = factor * rise[c] * dot[c] + (given[c] if u > 0 else slope * given[c])
                once[c] += of_u
                twice[c] += of_u * here[c]
                out[c] = scale[c] * of_u
            for d in range(3):
                g, row, to = of_imaginary[q, d], e[d], of_e[q, d]
                for c in range(channels):
                    to[c] = factor * gate[c] * g[c] - shrink * row[c]


@loop(fastmath={"contract"})
def pool(  # type: ignore[no-untyped-def]
    s, y, z, neighbour, start, weight, size, first, last, scale, shift, unit, gated, largest, winner, imaginary
):
    """The largest u of some centres and channels, its row counted from the first, and the mean of the imaginary parts.

    s, and y if z is empty, hold the rows of these centres only; the results are those of all centres.
    """
    channels = s.shape[1]
    one, half, share = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(1) / s.dtype.type(size)
    for i in prange(first, last):
        room, gate = np.empty((3, channels), s.dtype), np.empty(channels, s.dtype)
        best, place = largest[i], winner[i]
        best[:] = -np.inf
        place[:] = 0
        imaginary[i] = 0
        for r in range(start[i], start[i + 1]):
            q, number = r - start[first], np.int32(r - start[i])
            e, here = _edge(y, z, neighbour[r], i, q, room), s[q]
            factor = share * weight[r]
            if unit > 0:
                factor *= _size(e, unit)
            for c in range(channels):
                u = scale[c] * here[c] + shift[c]
                gate[c] = factor * (half + half * u / np.sqrt(one + u * u)) if gated else factor
            for c in range(channels):
                u = scale[c] * here[c] + shift[c]
                larger = u > best[c]
                place[c] = number if larger else place[c]
                best[c] = u if larger else best[c]
            for d in range(3):
                row, total = e[d], imaginary[i, d]
                for c in range(channels):
                    total[c] += gate[c] * row[c]


@loop(fastmath={"contract"})
def pool_back(  # type: ignore[no-untyped-def]
    s, y, z, neighbour, start, weight, size, first, last, scale, shift, unit, gated, winner, of_largest, of_imaginary, *outputs
):
    """The way back through `pool` for the rows of some centres: of_s, of_e and sums as in `activate_back`.

    Gradients are those of all centres.
    """
    of_s, of_e, sums = outputs
    channels = s.shape[1]
    one, half, zero, width = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(0), s.dtype.type(s.shape[1])
    share = one / s.dtype.type(size)
    for i in prange(first, last):
        room, work = np.empty((3, channels), s.dtype), np.empty((3, channels), s.dtype)
        gate, rise, dot = work[0], work[1], work[2]
        once, twice = sums[i - first, 0], sums[i - first, 1]
        once[:] = 0
        twice[:] = 0
        wins, given = winner[i], of_largest[i]
        g0, g1, g2 = of_imaginary[i, 0], of_imaginary[i, 1], of_imaginary[i, 2]
        for r in range(start[i], start[i + 1]):
            e, here, q, number = _edge(y, z, neighbour[r], i, r, room), s[r], r - start[first], r - start[i]
            out, counted = of_s[q], share * weight[r]
            e0, e1, e2 = e[0], e[1], e[2]
            for c in range(channels):
                dot[c] = g0[c] * e0[c] + g1[c] * e1[c] + g2[c] * e2[c]
            if gated:
                for c in range(channels):
                    u = scale[c] * here[c] + shift[c]
                    k = one / np.sqrt(one + u * u)
                    gate[c] = half + half * u * k
                    rise[c] = half * k * k * k
            else:
                gate[:] = one
                rise[:] = zero
            factor, shrink = counted, zero
            if unit > 0:
                f = _size(e, unit)
                factor = counted * f
                shrink = counted * f * f * f / width * _inner(gate, dot)
            for c in range(channels):
                of_u = factor * rise[c] * dot[c] + (given[c] if wins[c] == number else zero)
                once[c] += of_u
                twice[c] += of_u * here[c]
                out[c] = scale[c] * of_u
            for d in range(3):
                g, row, to = of_imaginary[i, d], e[d], of_e[q, d]
                for c in range(channels):
                    to[c] = factor * gate[c] * g[c] - shrink * row[c]
