"""The compiled loops behind `reqnn.kernels.full_edges`: real and imaginary parts of edges. See `reqnn.kernels.edge_loops`.

s (R, C) is the real part of every row, u = scale·s + shift what the batch-norm makes of it. The imaginary part is the edge
e = y[j] + z[i], brought to unit size (`unit_factor`) if unit > 0, and times the gate γ(u) = ½ + ½·u/√(1 + u²) if gated.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.kernels.edge_loops import _edge, _part, _place
from reqnn.kernels.full_loops import _found, _pulled, unit_factor
from reqnn.kernels.tied_loops import kept_share


@loop(fastmath={"contract"})
def invariants(y, z, neighbour, start, first, last, count, out):  # type: ignore[no-untyped-def]
    """The invariants of the rows of some centres: (rows, kinds·count)."""
    for i in prange(first, last):
        for r in range(start[i], start[i + 1]):
            _found(y, z, np.uint64(neighbour[r]), np.uint64(i), count, out, np.uint64(r - start[first]))


@loop(fastmath={"contract"})
def invariants_back(y, z, neighbour, start, first, last, count, gradient, of_e):  # type: ignore[no-untyped-def]
    """The way back through `invariants` for the rows of some centres: (rows, 3, kinds·count)."""
    for i in prange(first, last):
        for r in range(start[i], start[i + 1]):
            q = np.uint64(r - start[first])
            _pulled(y, z, np.uint64(neighbour[r]), np.uint64(i), count, gradient, q, of_e)


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
def _size(y, z, j, i, unit):  # type: ignore[no-untyped-def]
    """`reqnn.kernels.full_rows.unit_factor` of an edge, 1 if unit is 0."""
    total = y.dtype.type(0)
    for c in range(np.uint64(y.shape[2] if unit > 0 else 0)):
        d, e, f = _edge(y, z, j, i, c)
        total += d * d + e * e + f * f
    return unit_factor(total, y.shape[2], unit, y.dtype) if unit > 0 else y.dtype.type(1)


@compiled(fastmath={"contract"})
def _gate(u, gated, factor):  # type: ignore[no-untyped-def]
    """factor·γ(u)."""
    one, half = type(u)(1), type(u)(0.5)
    return factor * (half + half * u / np.sqrt(one + u * u)) if gated else factor


@loop(fastmath={"contract"})
def activate(s, y, z, neighbour, start, first, last, scale, shift, unit, gated, slope, real, imaginary):  # type: ignore[no-untyped-def]
    """Both parts of the rows of some centres behind batch-norm, leaky ReLU (slope) and gate: (rows, C), (rows, 3, C).

    s, and y if z is empty, hold the rows of these centres only.
    """
    channels = np.uint64(s.shape[1])
    for i in prange(first, last):
        for r in range(start[i], start[i + 1]):
            q, k = np.uint64(r - start[first]), np.uint64(i)
            j = _place(z, neighbour, r) if z.shape[0] else q
            factor = _size(y, z, j, k, unit)
            for c in range(channels):
                u, (d, e, f) = scale[c] * s[q, c] + shift[c], _edge(y, z, j, k, c)
                gate = _gate(u, gated, factor)
                real[q, c] = u if u > 0 else slope * u
                imaginary[q, 0, c] = gate * d
                imaginary[q, 1, c] = gate * e
                imaginary[q, 2, c] = gate * f


@loop(fastmath={"contract"})
def pool(  # type: ignore[no-untyped-def]
    s, y, z, neighbour, start, weight, size, first, last, scale, shift, unit, gated, slope, largest, winner, imaginary
):
    """The largest u of some centres and channels, its row counted from the first, and the mean of the imaginary parts.

    s, and y if z is empty, hold the rows of these centres only; the results are those of all centres.
    """
    channels, share = np.uint64(s.shape[1]), s.dtype.type(1) / s.dtype.type(size)
    for i in prange(first, last):
        best, place, k = largest[i], winner[i], np.uint64(i)
        best[:] = -np.inf
        place[:] = 0
        imaginary[i] = 0
        for r in range(start[i], start[i + 1]):
            q, number = np.uint64(r - start[first]), np.int32(r - start[i])
            j = _place(z, neighbour, r) if z.shape[0] else q
            factor = share * weight[r] * _size(y, z, j, k, unit)
            for c in range(channels):
                u, (d, e, f) = scale[c] * s[q, c] + shift[c], _edge(y, z, j, k, c)
                gate, larger = _gate(u, gated, factor), u > best[c]
                place[c] = number if larger else place[c]
                best[c] = u if larger else best[c]
                imaginary[k, 0, c] += gate * d
                imaginary[k, 1, c] += gate * e
                imaginary[k, 2, c] += gate * f


@compiled(fastmath={"contract", "reassoc"})
def _inner(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for c in range(np.uint64(a.shape[0])):
        total += a[c] * b[c]
    return total


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
    channels, pooled = np.uint64(s.shape[1]), winner.shape[0] > 0
    one, half, zero, width = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(0), s.dtype.type(s.shape[1])
    share, tied, rounding = one / s.dtype.type(size), one - kept_share(s), s.dtype.type(np.finfo(s.dtype).eps)
    for i in prange(first, last):
        once, twice, k, work = sums[i - first, 0], sums[i - first, 1], np.uint64(i), np.empty((6, s.shape[1]), s.dtype)
        gate, rise, dot, own, limit, count = work[0], work[1], work[2], work[3], work[4], work[5]
        once[:] = 0
        twice[:] = 0
        if pooled:
            for c in range(channels):
                best = scale[c] * s[start[i] + winner[i, c], c] + shift[c]
                limit[c], count[c] = best - tied * abs(best) - rounding * abs(shift[c]), zero
            for r in range(start[i], start[i + 1]):
                p = np.uint64(r)
                for c in range(channels):
                    count[c] += weight[p] if scale[c] * s[p, c] + shift[c] >= limit[c] else zero
        for r in range(start[i], start[i + 1]):
            j, p, q = _place(z, neighbour, r), np.uint64(r), np.uint64(r - start[first])
            at, factor, shrink = k if pooled else q, share * weight[p] if pooled else one, zero
            for c in range(channels):
                d, e, f = _edge(y, z, j, k, c)
                dot[c] = of_imaginary[at, 0, c] * d + of_imaginary[at, 1, c] * e + of_imaginary[at, 2, c] * f
            for c in range(channels):
                u = scale[c] * s[p, c] + shift[c]
                root = one / np.sqrt(one + u * u)
                gate[c] = half + half * u * root if gated else one
                rise[c] = half * root * root * root if gated else zero
            if pooled:
                for c in range(channels):
                    u = scale[c] * s[p, c] + shift[c]
                    own[c] = of_real[at, c] * weight[p] / count[c] if u >= limit[c] else zero
            else:
                for c in range(channels):
                    own[c] = of_real[at, c] if scale[c] * s[p, c] + shift[c] > 0 else slope * of_real[at, c]
            if unit > 0:
                inverse = _size(y, z, j, k, unit)
                shrink = factor * inverse * inverse * inverse / width * _inner(gate, dot)
                factor *= inverse
            for c in range(channels):
                of_u = factor * rise[c] * dot[c] + own[c]
                once[c] += of_u
                twice[c] += of_u * s[p, c]
                of_s[q, c] = scale[c] * of_u
            for d in range(np.uint64(3)):
                for c in range(channels):
                    of_e[q, d, c] = factor * gate[c] * of_imaginary[at, d, c] - shrink * _part(y, z, j, k, d, c)
