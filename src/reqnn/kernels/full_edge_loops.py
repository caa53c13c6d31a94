"""The compiled loops behind `reqnn.kernels.full_edges`: real and imaginary parts of edges. See `reqnn.kernels.edge_loops`.

s (R, C) is the real part of every row, u = scale·s + shift what the batch-norm makes of it. The imaginary part is the edge
e = y[j] + z[i], brought to unit size (`unit_factor`) if unit > 0, and times the gate γ(u) = ½ + ½·u/√(1 + u²) if gated.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.kernels.edge_loops import _edge, _sum
from reqnn.kernels.full_loops import _found, _pulled, unit_factor
from reqnn.kernels.tied_loops import kept_share


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
def _inner(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for c in range(a.shape[0]):
        total += a[c] * b[c]
    return total


@compiled(fastmath={"contract"})
def _gates(s, scale, shift, gated, factor, gate):  # type: ignore[no-untyped-def]
    """factor·γ(u) of one row."""
    one, half = s.dtype.type(1), s.dtype.type(0.5)
    for c in range(s.shape[0]):
        u = scale[c] * s[c] + shift[c]
        gate[c] = factor * (half + half * u / np.sqrt(one + u * u)) if gated else factor


@loop(fastmath={"contract"})
def activate(s, y, z, neighbour, start, first, last, scale, shift, unit, gated, slope, real, imaginary):  # type: ignore[no-untyped-def]
    """Both parts of the rows of some centres behind batch-norm, leaky ReLU (slope) and gate: (rows, C), (rows, 3, C).

    s, and y if z is empty, hold the rows of these centres only.
    """
    channels, one = s.shape[1], s.dtype.type(1)
    for i in prange(first, last):
        room, gate = np.empty((3, channels), s.dtype), np.empty(channels, s.dtype)
        for r in range(start[i], start[i + 1]):
            q = r - start[first]
            e, here, out = _edge(y, z, neighbour[r], i, q, room), s[q], real[q]
            _gates(here, scale, shift, gated, unit_factor(e, unit) if unit > 0 else one, gate)
            for c in range(channels):
                u = scale[c] * here[c] + shift[c]
                out[c] = u if u > 0 else slope * u
            for d in range(3):
                row, to = e[d], imaginary[q, d]
                for c in range(channels):
                    to[c] = gate[c] * row[c]


@loop(fastmath={"contract"})
def pool(  # type: ignore[no-untyped-def]
    s, y, z, neighbour, start, weight, size, first, last, scale, shift, unit, gated, slope, largest, winner, imaginary
):
    """The largest u of some centres and channels, its row counted from the first, and the mean of the imaginary parts.

    s, and y if z is empty, hold the rows of these centres only; the results are those of all centres.
    """
    channels, share = s.shape[1], s.dtype.type(1) / s.dtype.type(size)
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
                factor *= unit_factor(e, unit)
            _gates(here, scale, shift, gated, factor, gate)
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
def pull(  # type: ignore[no-untyped-def]
    s,
    y,
    z,
    neighbour,
    start,
    weight,
    size,
    first,
    last,
    scale,
    shift,
    unit,
    gated,
    slope,
    winner,
    of_real,
    of_imaginary,
    *outputs,
):
    """The way back for the rows of some centres: of_s (rows, C), of_e (rows, 3, C), sums (last - first, 2, C): Σ ∂u and Σ ∂u·s.

    Gradients are those of `activate` on these rows or, if there are winners, those of `pool` on all centres, shared by rows
    that are tied. With the gradient g, γ′ = ½(1 + u²)^(−3/2) and the size f: u gets f·γ′·⟨g, e⟩, e f·γ·g − f³/C·Σ_c γ⟨g, e⟩·e.
    """
    of_s, of_e, sums = outputs
    channels, pooled = s.shape[1], winner.shape[0] > 0
    one, half, zero, width = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(0), s.dtype.type(s.shape[1])
    share, tied, rounding = one / s.dtype.type(size), one - kept_share(s), s.dtype.type(np.finfo(s.dtype).eps)
    for i in prange(first, last):
        room, work = np.empty((3, channels), s.dtype), np.empty((6, channels), s.dtype)
        gate, rise, dot, own, limit, count = work[0], work[1], work[2], work[3], work[4], work[5]
        once, twice = sums[i - first, 0], sums[i - first, 1]
        once[:] = 0
        twice[:] = 0
        if pooled:
            for c in range(channels):
                best = scale[c] * s[start[i] + winner[i, c], c] + shift[c]
                limit[c], count[c] = best - tied * abs(best) - rounding * abs(shift[c]), zero
            for r in range(start[i], start[i + 1]):
                here = s[r]
                for c in range(channels):
                    count[c] += weight[r] if scale[c] * here[c] + shift[c] >= limit[c] else zero
        for r in range(start[i], start[i + 1]):
            e, here, q = _edge(y, z, neighbour[r], i, r, room), s[r], r - start[first]
            at, factor, shrink = i if pooled else q, share * weight[r] if pooled else one, zero
            given, g0, g1, g2 = of_real[at], of_imaginary[at, 0], of_imaginary[at, 1], of_imaginary[at, 2]
            e0, e1, e2, out = e[0], e[1], e[2], of_s[q]
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
            if pooled:
                for c in range(channels):
                    own[c] = given[c] * weight[r] / count[c] if scale[c] * here[c] + shift[c] >= limit[c] else zero
            else:
                for c in range(channels):
                    own[c] = given[c] if scale[c] * here[c] + shift[c] > 0 else slope * given[c]
            if unit > 0:
                f = unit_factor(e, unit)
                shrink = factor * f * f * f / width * _inner(gate, dot)
                factor *= f
            for c in range(channels):
                of_u = factor * rise[c] * dot[c] + own[c]
                once[c] += of_u
                twice[c] += of_u * here[c]
                out[c] = scale[c] * of_u
            for d in range(3):
                g, row, to = of_imaginary[at, d], e[d], of_e[q, d]
                for c in range(channels):
                    to[c] = factor * gate[c] * g[c] - shrink * row[c]
