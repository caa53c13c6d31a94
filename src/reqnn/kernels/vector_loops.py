"""The compiled loops behind `reqnn.kernels.vector_edges`. See `reqnn.kernels.edge_loops` for y, z, neighbour, start and weight.

The feature of a row is the edge e = y[j] + z[i], its direction k = yk[j] + zk[i]. With n = ‖e‖:

    v = e·(scale·n + shift)·n/(n² + fade),    out = v − (1 − slope)·min{⟨v, k⟩, 0}/(‖k‖² + tiny)·k

with slope, fade and tiny in `constants`. Without batch-norm scale is empty and v = e, without ReLU yk is empty and out = v.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop


@compiled
def _row(y, z, j, i, r, room):  # type: ignore[no-untyped-def]
    """The edge y[j] + z[i], written to room (3, C); if z is empty, the stored row y[r]."""
    if z.shape[0] == 0:
        return y[r]
    for d in range(3):
        for c in range(room.shape[1]):
            room[d, c] = y[j, d, c] + z[i, d, c]
    return room


@loop(fastmath={"contract"})
def measure(y, z, neighbour, start, weight, sums):  # type: ignore[no-untyped-def]
    """Σ weight·‖e‖ and Σ weight·‖e‖² over all rows, (blocks, 2, C) float64."""
    centres, channels = start.shape[0] - 1, y.shape[2]
    size = (centres + sums.shape[0] - 1) // sums.shape[0]
    for block in prange(sums.shape[0]):
        room, total = np.empty((3, channels), y.dtype), np.empty((2, channels), y.dtype)
        once, twice, lengths, squares = total[0], total[1], sums[block, 0], sums[block, 1]
        lengths[:] = 0
        squares[:] = 0
        for i in range(block * size, min((block + 1) * size, centres)):
            total[:] = 0
            for r in range(start[i], start[i + 1]):
                e, w = _row(y, z, neighbour[r], i, r, room), weight[r]
                e0, e1, e2 = e[0], e[1], e[2]
                for c in range(channels):
                    square = e0[c] * e0[c] + e1[c] * e1[c] + e2[c] * e2[c]
                    once[c] += w * np.sqrt(square)
                    twice[c] += w * square
            for c in range(channels):
                lengths[c] += once[c]
                squares[c] += twice[c]


@loop(fastmath={"contract"})
def measure_back(y, z, neighbour, start, weight, first, last, of_lengths, of_squares, of_e):  # type: ignore[no-untyped-def]
    """The way back through `measure` for the rows of some centres: weight·(of_lengths/‖e‖ + 2·of_squares)·e, (rows, 3, C).

    Where y[j] = −z[i] up to rounding the direction of e is noise and ‖e‖ has derivative 0, as at e = 0.
    """
    channels, zero, one, two = y.shape[2], y.dtype.type(0), y.dtype.type(1), y.dtype.type(2)
    noise = y.dtype.type((16 * np.finfo(y.dtype).eps) ** 2)
    for i in prange(first, last):
        room, work = np.empty((3, channels), y.dtype), np.zeros((2, channels), y.dtype)
        factor, least = work[0], work[1]
        if z.shape[0] > 0:
            for c in range(channels):
                least[c] = noise * (z[i, 0, c] * z[i, 0, c] + z[i, 1, c] * z[i, 1, c] + z[i, 2, c] * z[i, 2, c])
        for r in range(start[i], start[i + 1]):
            e, w, q = _row(y, z, neighbour[r], i, r, room), weight[r], r - start[first]
            e0, e1, e2 = e[0], e[1], e[2]
            for c in range(channels):
                square = e0[c] * e0[c] + e1[c] * e1[c] + e2[c] * e2[c]
                long = square > least[c]
                factor[c] = w * ((of_lengths[c] if long else zero) / np.sqrt(square if long else one) + two * of_squares[c])
            for d in range(3):
                row, to = e[d], of_e[q, d]
                for c in range(channels):
                    to[c] = factor[c] * row[c]


@compiled(fastmath={"contract"})
def _factors(e, k, scale, shift, constants, bent, grow, cut):  # type: ignore[no-untyped-def]
    """out = grow·e − cut·k of one row."""
    channels, one, zero = e.shape[1], e.dtype.type(1), e.dtype.type(0)
    slope, fade, tiny = constants[0], constants[1], constants[2]
    e0, e1, e2, k0, k1, k2 = e[0], e[1], e[2], k[0], k[1], k[2]
    if scale.shape[0] > 0:
        for c in range(channels):
            square = e0[c] * e0[c] + e1[c] * e1[c] + e2[c] * e2[c]
            length = np.sqrt(square)
            grow[c] = (scale[c] * length + shift[c]) * length / (square + fade)
    else:
        grow[:] = one
    if bent:
        steep = one - slope
        for c in range(channels):
            against = grow[c] * (e0[c] * k0[c] + e1[c] * k1[c] + e2[c] * k2[c])
            cut[c] = steep * (against if against < 0 else zero) / (k0[c] * k0[c] + k1[c] * k1[c] + k2[c] * k2[c] + tiny)
    else:
        cut[:] = zero


@loop(fastmath={"contract"})
def activate(y, z, yk, zk, scale, shift, constants, neighbour, start, first, last, out):  # type: ignore[no-untyped-def]
    """The rows of some centres behind batch-norm and ReLU, (rows, 3, C)."""
    channels, bent = y.shape[2], yk.shape[0] > 0
    for i in prange(first, last):
        room, other, work = np.empty((3, channels), y.dtype), np.empty((3, channels), y.dtype), np.empty((2, channels), y.dtype)
        grow, cut = work[0], work[1]
        for r in range(start[i], start[i + 1]):
            e = _row(y, z, neighbour[r], i, r, room)
            k = _row(yk, zk, neighbour[r], i, r, other) if bent else e
            _factors(e, k, scale, shift, constants, bent, grow, cut)
            for d in range(3):
                row, along, to = e[d], k[d], out[r - start[first], d]
                for c in range(channels):
                    to[c] = grow[c] * row[c] - cut[c] * along[c]


@loop(fastmath={"contract"})
def pool(y, z, yk, zk, scale, shift, constants, neighbour, start, weight, size, out):  # type: ignore[no-untyped-def]
    """The mean of what `activate` makes of the rows of each centre, (P, 3, C)."""
    channels, bent = y.shape[2], yk.shape[0] > 0
    share = y.dtype.type(1) / y.dtype.type(size)
    for i in prange(start.shape[0] - 1):
        room, other, work = np.empty((3, channels), y.dtype), np.empty((3, channels), y.dtype), np.empty((2, channels), y.dtype)
        grow, cut, total = work[0], work[1], out[i]
        total[:] = 0
        for r in range(start[i], start[i + 1]):
            e, w = _row(y, z, neighbour[r], i, r, room), share * weight[r]
            k = _row(yk, zk, neighbour[r], i, r, other) if bent else e
            _factors(e, k, scale, shift, constants, bent, grow, cut)
            for d in range(3):
                row, along, to = e[d], k[d], total[d]
                for c in range(channels):
                    to[c] += w * (grow[c] * row[c] - cut[c] * along[c])


@loop(fastmath={"contract"})
def pull(  # type: ignore[no-untyped-def]
    y, z, yk, zk, scale, shift, constants, neighbour, start, weight, size, first, last, pooled, gradient, of_e, of_k, sums
):
    """The way back for the rows of some centres: of_e and of_k (rows, 3, C), sums (last - first, 2, C) of scale and shift.

    gradient is that of `activate` on these rows, or if pooled that of `pool` on all centres. With the gradient g of a row,
    active = 1 − slope where ⟨v, k⟩ ≤ 0 and else 0, inverse = 1/(‖k‖² + tiny), cut = active·⟨v, k⟩·inverse and
    back = active·⟨g, k⟩·inverse:

        v gets g − back·k,    k gets 2·cut·⟨g, k⟩·inverse·k − cut·g − back·v

    and, as v = factor·e, factor gets ⟨g, e⟩ − back·⟨e, k⟩. Short loops, for the compiler to do several channels at once.
    """
    channels, normed, bent = y.shape[2], scale.shape[0] > 0, yk.shape[0] > 0
    one, zero, two = y.dtype.type(1), y.dtype.type(0), y.dtype.type(2)
    share, steep, fade, tiny = one / y.dtype.type(size), one - constants[0], constants[1], constants[2]
    for i in prange(first, last):
        room, other, work = np.empty((3, channels), y.dtype), np.empty((3, channels), y.dtype), np.zeros((9, channels), y.dtype)
        length, factor, along, inverse, g_e = work[0], work[1], work[2], work[3], work[4]
        g_k, cut, back, by_e = work[5], work[6], work[7], work[8]
        factor[:] = one
        sums[i - first] = 0
        of_scale, of_shift = sums[i - first, 0], sums[i - first, 1]
        for r in range(start[i], start[i + 1]):
            q = r - start[first]
            e = _row(y, z, neighbour[r], i, r, room)
            k = _row(yk, zk, neighbour[r], i, r, other) if bent else e
            given, counted = gradient[i] if pooled else gradient[q], share * weight[r] if pooled else one
            e0, e1, e2, k0, k1, k2 = e[0], e[1], e[2], k[0], k[1], k[2]
            g0, g1, g2 = given[0], given[1], given[2]
            if normed:
                for c in range(channels):
                    length[c] = np.sqrt(e0[c] * e0[c] + e1[c] * e1[c] + e2[c] * e2[c])
                    factor[c] = (scale[c] * length[c] + shift[c]) * length[c] / (length[c] * length[c] + fade)
                    g_e[c] = counted * (g0[c] * e0[c] + g1[c] * e1[c] + g2[c] * e2[c])
            if bent:
                for c in range(channels):
                    along[c] = e0[c] * k0[c] + e1[c] * k1[c] + e2[c] * k2[c]
                    g_k[c] = counted * (g0[c] * k0[c] + g1[c] * k1[c] + g2[c] * k2[c])
                    inverse[c] = one / (k0[c] * k0[c] + k1[c] * k1[c] + k2[c] * k2[c] + tiny)
                for c in range(channels):
                    active = (steep if factor[c] * along[c] <= 0 else zero) * inverse[c]
                    cut[c] = active * factor[c] * along[c]
                    back[c] = active * g_k[c]
            if normed:
                for c in range(channels):
                    of_factor = (g_e[c] - back[c] * along[c]) / (length[c] * length[c] + fade)
                    by_length = two * (scale[c] - factor[c]) * length[c] + shift[c]
                    by_e[c] = of_factor * by_length / (length[c] if length[c] > 0 else one)
                    g_e[c] = of_factor * length[c]
                for c in range(channels):
                    of_scale[c] += g_e[c] * length[c]
                    of_shift[c] += g_e[c]
            for d in range(3):
                g, row, direction, to = given[d], e[d], k[d], of_e[q, d]
                for c in range(channels):
                    to[c] = by_e[c] * row[c] + factor[c] * (counted * g[c] - back[c] * direction[c])
            if bent:
                for c in range(channels):
                    inverse[c] = two * cut[c] * g_k[c] * inverse[c]
                    back[c] = back[c] * factor[c]
                for d in range(3):
                    g, row, direction, to = given[d], e[d], k[d], of_k[q, d]
                    for c in range(channels):
                        to[c] = inverse[c] * direction[c] - counted * cut[c] * g[c] - back[c] * row[c]
