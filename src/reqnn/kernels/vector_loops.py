"""The compiled loops behind `reqnn.nn.vector_edges`; importing this needs numba. Shapes are those of the callers.

A task owns some channels of a cloud, forward also some of its points, so that backward no two tasks write to the same place.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled

CHANNELS = 64  # of a task
POINTS = 64  # of a task on the way forth


@compiled(parallel=True, fastmath={"contract"})
def measure(y, z, idx, sums):  # type: ignore[no-untyped-def]
    """Σ ‖e‖ and Σ ‖e‖² over the edges of a cloud: sums (B, 2, O) float64."""
    clouds, points, _, channels = y.shape
    chunks = (channels + CHANNELS - 1) // CHANNELS
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * CHANNELS
        last = min(first + CHANNELS, channels)
        lengths, squares = np.zeros(last - first, np.float64), np.zeros(last - first, np.float64)
        for i in range(points):
            once, twice = np.zeros(last - first, y.dtype), np.zeros(last - first, y.dtype)
            z0, z1, z2 = z[b, i, 0][first:last], z[b, i, 1][first:last], z[b, i, 2][first:last]
            for place in range(idx.shape[2]):
                yj = y[b, idx[b, i, place]]
                y0, y1, y2 = yj[0][first:last], yj[1][first:last], yj[2][first:last]
                for c in range(last - first):
                    e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                    square = e0 * e0 + e1 * e1 + e2 * e2
                    once[c] += np.sqrt(square)
                    twice[c] += square
            for c in range(last - first):
                lengths[c] += once[c]
                squares[c] += twice[c]
        sums[b, 0, first:last] = lengths
        sums[b, 1, first:last] = squares


@compiled(parallel=True, fastmath={"contract"})
def measure_back(y, z, idx, of_lengths, of_squares, of_y, of_z):  # type: ignore[no-untyped-def]
    """∂/∂e of the sums: (of_lengths/‖e‖ + 2·of_squares)·e, added up at both ends of each edge."""
    clouds, points, _, channels = y.shape
    chunks = (channels + CHANNELS - 1) // CHANNELS
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * CHANNELS
        last = min(first + CHANNELS, channels)
        width, one = last - first, y.dtype.type(1)
        of_y[b, :, :, first:last] = 0
        once, twice, weight = of_lengths[first:last], of_squares[first:last], np.empty(width, y.dtype)
        for i in range(points):
            total = np.zeros((3, width), y.dtype)
            z0, z1, z2 = z[b, i, 0][first:last], z[b, i, 1][first:last], z[b, i, 2][first:last]
            for place in range(idx.shape[2]):
                j = idx[b, i, place]
                y0, y1, y2 = y[b, j, 0][first:last], y[b, j, 1][first:last], y[b, j, 2][first:last]
                for c in range(width):
                    e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                    length = np.sqrt(e0 * e0 + e1 * e1 + e2 * e2)
                    weight[c] = twice[c] + twice[c] + once[c] / (length if length > 0 else one)
                for d in range(3):
                    yj, zi, oj, ti = y[b, j, d][first:last], z[b, i, d][first:last], of_y[b, j, d][first:last], total[d]
                    for c in range(width):
                        gradient = weight[c] * (yj[c] + zi[c])
                        oj[c] += gradient
                        ti[c] += gradient
            of_z[b, i, :, first:last] = total


@compiled(parallel=True, fastmath={"contract"})
def pool(y, z, yk, zk, idx, scale, shift, slope, eps, tiny, out):  # type: ignore[no-untyped-def]
    """The mean over the neighbours of what batch-norm on norms and directional ReLU make of each edge."""
    clouds, points, _, channels = y.shape
    chunks, blocks = (channels + CHANNELS - 1) // CHANNELS, (points + POINTS - 1) // POINTS
    share = y.dtype.type(1) / y.dtype.type(idx.shape[2])
    for task in prange(clouds * chunks * blocks):
        b, rest = task // (chunks * blocks), task % (chunks * blocks)
        first, block = (rest // blocks) * CHANNELS, rest % blocks
        last = min(first + CHANNELS, channels)
        width, steep, zero = last - first, y.dtype.type(1) - slope, y.dtype.type(0)
        a, s = scale[first:last], shift[first:last]
        grow, cut = np.empty(width, y.dtype), np.empty(width, y.dtype)
        for i in range(block * POINTS, min((block + 1) * POINTS, points)):
            total = np.zeros((3, width), y.dtype)
            z0, z1, z2 = z[b, i, 0][first:last], z[b, i, 1][first:last], z[b, i, 2][first:last]
            k0, k1, k2 = zk[b, i, 0][first:last], zk[b, i, 1][first:last], zk[b, i, 2][first:last]
            for place in range(idx.shape[2]):
                j = idx[b, i, place]
                y0, y1, y2 = y[b, j, 0][first:last], y[b, j, 1][first:last], y[b, j, 2][first:last]
                h0, h1, h2 = yk[b, j, 0][first:last], yk[b, j, 1][first:last], yk[b, j, 2][first:last]
                for c in range(width):
                    e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                    d0, d1, d2 = h0[c] + k0[c], h1[c] + k1[c], h2[c] + k2[c]
                    square = e0 * e0 + e1 * e1 + e2 * e2
                    length = np.sqrt(square)
                    factor = (a[c] * length + s[c]) * length / (square + eps)
                    against = factor * (e0 * d0 + e1 * d1 + e2 * d2)
                    grow[c] = factor
                    cut[c] = steep * (against if against < 0 else zero) / (d0 * d0 + d1 * d1 + d2 * d2 + tiny)
                for d in range(3):
                    yj, zi, hj, ki = (
                        y[b, j, d][first:last],
                        z[b, i, d][first:last],
                        yk[b, j, d][first:last],
                        zk[b, i, d][first:last],
                    )
                    ti = total[d]
                    for c in range(width):
                        ti[c] += grow[c] * (yj[c] + zi[c]) - cut[c] * (hj[c] + ki[c])
            for d in range(3):
                ti, oi = total[d], out[b, i, d][first:last]
                for c in range(width):
                    oi[c] = share * ti[c]


@compiled(parallel=True, fastmath={"contract"})
def pool_back(y, z, yk, zk, idx, scale, shift, slope, eps, tiny, gradient, of_y, of_z, of_yk, of_zk, of_norm):  # type: ignore[no-untyped-def]
    """The way back through `pool`; of_norm (B, 2, O) float64 takes the derivatives by scale and shift.

    With the gradient g, active = 1 − α where ⟨v, k⟩ < 0 and else 0, inverse = 1/(‖k‖² + tiny), cut = active·⟨v, k⟩·inverse and
    back = active·⟨g, k⟩·inverse:

        v gets g − back·k,    k gets 2·cut·⟨g, k⟩·inverse · k − cut·g − back·v

    and, as v = factor·e, factor gets ⟨g, e⟩ − back·⟨e, k⟩. Short loops, for the compiler to do several channels at once.
    """
    clouds, points, _, channels = y.shape
    chunks = (channels + CHANNELS - 1) // CHANNELS
    share = y.dtype.type(1) / y.dtype.type(idx.shape[2])
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * CHANNELS
        last = min(first + CHANNELS, channels)
        width, steep, zero, one = last - first, y.dtype.type(1) - slope, y.dtype.type(0), y.dtype.type(1)
        a, s = scale[first:last], shift[first:last]
        of_a, of_s = np.zeros(width, np.float64), np.zeros(width, np.float64)
        work = np.empty((9, width), y.dtype)
        length, factor, along, inverse, g_e, g_k, cut, back, by_e = (
            work[0],
            work[1],
            work[2],
            work[3],
            work[4],
            work[5],
            work[6],
            work[7],
            work[8],
        )
        of_y[b, :, :, first:last] = 0
        of_yk[b, :, :, first:last] = 0
        for i in range(points):
            total, total_k = np.zeros((3, width), y.dtype), np.zeros((3, width), y.dtype)
            sum_a, sum_s = np.zeros(width, y.dtype), np.zeros(width, y.dtype)
            z0, z1, z2 = z[b, i, 0][first:last], z[b, i, 1][first:last], z[b, i, 2][first:last]
            k0, k1, k2 = zk[b, i, 0][first:last], zk[b, i, 1][first:last], zk[b, i, 2][first:last]
            g0, g1, g2 = gradient[b, i, 0][first:last], gradient[b, i, 1][first:last], gradient[b, i, 2][first:last]
            for place in range(idx.shape[2]):
                j = idx[b, i, place]
                y0, y1, y2 = y[b, j, 0][first:last], y[b, j, 1][first:last], y[b, j, 2][first:last]
                h0, h1, h2 = yk[b, j, 0][first:last], yk[b, j, 1][first:last], yk[b, j, 2][first:last]
                for c in range(width):
                    e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                    length[c] = np.sqrt(e0 * e0 + e1 * e1 + e2 * e2)
                    g_e[c] = share * (g0[c] * e0 + g1[c] * e1 + g2[c] * e2)
                for c in range(width):
                    d0, d1, d2 = h0[c] + k0[c], h1[c] + k1[c], h2[c] + k2[c]
                    along[c] = (y0[c] + z0[c]) * d0 + (y1[c] + z1[c]) * d1 + (y2[c] + z2[c]) * d2
                    inverse[c] = one / (d0 * d0 + d1 * d1 + d2 * d2 + tiny)
                for c in range(width):
                    g_k[c] = share * (g0[c] * (h0[c] + k0[c]) + g1[c] * (h1[c] + k1[c]) + g2[c] * (h2[c] + k2[c]))
                    factor[c] = (a[c] * length[c] + s[c]) * length[c] / (length[c] * length[c] + eps)
                for c in range(width):
                    active = (steep if factor[c] * along[c] < 0 else zero) * inverse[c]
                    cut[c] = active * factor[c] * along[c]
                    back[c] = active * g_k[c]
                for c in range(width):
                    of_factor = (g_e[c] - back[c] * along[c]) / (length[c] * length[c] + eps)
                    by_length = (a[c] + a[c]) * length[c] + s[c] - (factor[c] + factor[c]) * length[c]
                    by_e[c] = of_factor * by_length / (length[c] if length[c] > 0 else one)
                    g_e[c] = of_factor * length[c]
                for c in range(width):
                    sum_s[c] += g_e[c]
                    sum_a[c] += g_e[c] * length[c]
                for c in range(width):
                    inverse[c] = (cut[c] + cut[c]) * g_k[c] * inverse[c]
                    back[c] = back[c] * factor[c]
                for d in range(3):
                    yj, zi, hj, ki = (
                        y[b, j, d][first:last],
                        z[b, i, d][first:last],
                        yk[b, j, d][first:last],
                        zk[b, i, d][first:last],
                    )
                    gi, oj, ti = gradient[b, i, d][first:last], of_y[b, j, d][first:last], total[d]
                    for c in range(width):
                        value = by_e[c] * (yj[c] + zi[c]) + share * factor[c] * gi[c] - back[c] * (hj[c] + ki[c])
                        oj[c] += value
                        ti[c] += value
                    oj, ti = of_yk[b, j, d][first:last], total_k[d]
                    for c in range(width):
                        value = inverse[c] * (hj[c] + ki[c]) - share * cut[c] * gi[c] - back[c] * (yj[c] + zi[c])
                        oj[c] += value
                        ti[c] += value
            of_z[b, i, :, first:last] = total
            of_zk[b, i, :, first:last] = total_k
            for c in range(width):
                of_a[c] += sum_a[c]
                of_s[c] += sum_s[c]
        of_norm[b, 0, first:last] = of_a
        of_norm[b, 1, first:last] = of_s
