"""The compiled loops behind `reqnn.nn.group_layers`; importing this needs numba.

A row is an edge from a centre to one of its neighbours: its first feature is y[neighbour] + z[centre] and is never stored.
The rows of a centre follow one another, from start[centre] to start[centre + 1]; weight (R,) is how often the row counts in
the statistics (a ball that is not full counts its nearest point more than once). s (C,) is the scale of the batch-norm,
bound the constant of the ReLU rule. Some loops work on the centres from `first` to `last` only, and on the rows of these.

Shapes:
    y: (M, 3, C); z: (P, 3, C); neighbour: (R,) int32; start: (P + 1,) int64; weight: (R,)
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.points.kernels.compile import compiled

CHUNK = 32  # channels that one task of a scatter owns


@compiled(parallel=True, fastmath={"contract", "reassoc"})
def edge_power(y, z, neighbour, start, weight, sums):  # type: ignore[no-untyped-def]
    """Σ weight·‖y + z‖² over all edges, (blocks, C)."""
    centres, _, channels = z.shape
    size = (centres + sums.shape[0] - 1) // sums.shape[0]
    for block in prange(sums.shape[0]):
        total = np.zeros(channels, y.dtype)
        for i in range(block * size, min((block + 1) * size, centres)):
            zi = z[i]
            for r in range(start[i], start[i + 1]):
                yj, w = y[neighbour[r]], weight[r]
                for c in range(channels):
                    d, e, f = yj[0, c] + zi[0, c], yj[1, c] + zi[1, c], yj[2, c] + zi[2, c]
                    total[c] += w * (d * d + e * e + f * f)
        sums[block] = total


@compiled(parallel=True, fastmath={"contract"})
def edge_relu(y, z, neighbour, start, first, last, s, bound, out):  # type: ignore[no-untyped-def]
    """ReLU(s·(y + z)) of the edges of some centres, (rows, 3, C)."""
    channels = y.shape[2]
    for i in prange(first, last):
        zi = z[i]
        for r in range(start[i], start[i + 1]):
            yj, h = y[neighbour[r]], out[r - start[first]]
            for c in range(channels):
                d, e, f = yj[0, c] + zi[0, c], yj[1, c] + zi[1, c], yj[2, c] + zi[2, c]
                norm = s[c] * np.sqrt(d * d + e * e + f * f)
                gain = s[c] if norm >= bound else s[c] * (norm / bound)
                h[0, c] = gain * d
                h[1, c] = gain * e
                h[2, c] = gain * f


@compiled(parallel=True, fastmath={"contract"})
def edge_backward(y, z, neighbour, start, first, last, s, bound, gradient, slopes):  # type: ignore[no-untyped-def]
    """The derivative of `edge_relu` by y + z, in place of the gradient, and by s, a sum for each centre: (last - first, C)."""
    channels = y.shape[2]
    tiny = np.finfo(y.dtype).tiny
    for i in prange(first, last):
        zi, total = z[i], slopes[i - first]
        total[:] = 0
        for r in range(start[i], start[i + 1]):
            yj, g = y[neighbour[r]], gradient[r - start[first]]
            for c in range(channels):
                d, e, f = yj[0, c] + zi[0, c], yj[1, c] + zi[1, c], yj[2, c] + zi[2, c]
                norm = s[c] * np.sqrt(d * d + e * e + f * f)
                dot = d * g[0, c] + e * g[1, c] + f * g[2, c]
                total[c] += 2 * (norm / bound) * dot if norm < bound else dot
            for c in range(channels):
                d, e, f = yj[0, c] + zi[0, c], yj[1, c] + zi[1, c], yj[2, c] + zi[2, c]
                u, v, w = g[0, c], g[1, c], g[2, c]
                norm = s[c] * np.sqrt(d * d + e * e + f * f)
                shrinks = norm < bound
                gain = s[c] * (norm / bound) if shrinks else s[c]
                along = s[c] * s[c] * s[c] * (d * u + e * v + f * w) / (max(norm, tiny) * bound) if shrinks else s[c] * 0
                g[0, c] = gain * u + along * d
                g[1, c] = gain * v + along * e
                g[2, c] = gain * w + along * f


@compiled(parallel=True)
def add_to_ends(gradient, neighbour, start, first, last, of_y, of_z):  # type: ignore[no-untyped-def]
    """The gradient of every edge of some centres, added to its two ends."""
    channels = of_y.shape[2]
    for task in prange((channels + CHUNK - 1) // CHUNK):  # a task owns its channels: no two write to the same place
        a, b = task * CHUNK, min((task + 1) * CHUNK, channels)
        for i in range(first, last):
            for r in range(start[i], start[i + 1]):
                for part in range(3):
                    g = gradient[r - start[first], part][a:b]
                    at_y, at_z = of_y[neighbour[r], part][a:b], of_z[i, part][a:b]
                    for c in range(b - a):
                        at_y[c] += g[c]
                        at_z[c] += g[c]


@compiled(parallel=True, fastmath={"contract"})
def edge_spread(y, z, neighbour, start, weight, extra, of_y, of_z):  # type: ignore[no-untyped-def]
    """extra·weight·(y + z) of all edges, added to both their ends: what comes through the batch statistics."""
    centres, _, channels = z.shape
    for task in prange((channels + CHUNK - 1) // CHUNK):
        a, b = task * CHUNK, min((task + 1) * CHUNK, channels)
        factor = extra[a:b]
        for i in range(centres):
            for r in range(start[i], start[i + 1]):
                j, w = neighbour[r], weight[r]
                for part in range(3):
                    yj, zi, at_y, at_z = y[j, part][a:b], z[i, part][a:b], of_y[j, part][a:b], of_z[i, part][a:b]
                    for c in range(b - a):
                        value = factor[c] * w * (yj[c] + zi[c])
                        at_y[c] += value
                        at_z[c] += value


@compiled(parallel=True, fastmath={"contract", "reassoc"})
def power(x, weight, sums):  # type: ignore[no-untyped-def]
    """Σ weight·‖x‖² over rows, (blocks, C)."""
    rows, _, channels = x.shape
    size = (rows + sums.shape[0] - 1) // sums.shape[0]
    for block in prange(sums.shape[0]):
        total = np.zeros(channels, x.dtype)
        for r in range(block * size, min((block + 1) * size, rows)):
            w = weight[r]
            for c in range(channels):
                total[c] += w * (x[r, 0, c] * x[r, 0, c] + x[r, 1, c] * x[r, 1, c] + x[r, 2, c] * x[r, 2, c])
        sums[block] = total


@compiled(parallel=True, fastmath={"contract"})
def backward(x, s, bound, gradient, extra, weight, out):  # type: ignore[no-untyped-def]
    """The derivative of ReLU(s·x) by x, applied to the gradient, and extra·weight·x; `out` may be the gradient."""
    rows, _, channels = x.shape
    tiny = np.finfo(x.dtype).tiny
    for r in prange(rows):
        counts = weight[r]
        for c in range(channels):
            d, e, f = x[r, 0, c], x[r, 1, c], x[r, 2, c]
            u, v, w = gradient[r, 0, c], gradient[r, 1, c], gradient[r, 2, c]
            norm = s[c] * np.sqrt(d * d + e * e + f * f)
            shrinks = norm < bound
            gain = s[c] * (norm / bound) if shrinks else s[c]
            along = s[c] * s[c] * s[c] * (d * u + e * v + f * w) / (max(norm, tiny) * bound) if shrinks else s[c] * 0
            along += extra[c] * counts
            out[r, 0, c] = gain * u + along * d
            out[r, 1, c] = gain * v + along * e
            out[r, 2, c] = gain * w + along * f


@compiled(parallel=True, fastmath={"contract"})
def longest(x, start, weight, first, winner, out, sums):  # type: ignore[no-untyped-def]
    """The longest row of each centre in each channel: its row (centres, C), itself (centres, 3, C); Σ weight·‖x‖² (centres, C).

    x holds the rows of these centres only; winner counts from the centre's first row. The first of equally long ones wins.
    """
    channels = x.shape[2]
    for q in prange(winner.shape[0]):
        base, begin, end = start[first], start[first + q], start[first + q + 1]
        best = np.full(channels, -1.0, x.dtype)
        chosen, total = winner[q], sums[q]
        chosen[:] = 0
        total[:] = 0
        for r in range(begin, end):
            row, w, place = x[r - base], weight[r], np.int32(r - begin)
            for c in range(channels):
                length = row[0, c] * row[0, c] + row[1, c] * row[1, c] + row[2, c] * row[2, c]
                total[c] += w * length
                longer = length > best[c]
                best[c] = length if longer else best[c]
                chosen[c] = place if longer else chosen[c]
        for c in range(channels):
            row = x[begin - base + chosen[c]]
            for part in range(3):
                out[q, part, c] = row[part, c]


@compiled(parallel=True, fastmath={"contract"})
def winners_backward(h, matrix, start, weight, first, winner, gradient, of_h, of_matrix):  # type: ignore[no-untyped-def]
    """The derivative of the longest rows of h·matrixᵀ, added to weight·of_h (rows, 3, C) and to of_matrix (tasks, O, C).

    Only winners have one: a sum over centres in place of a product over rows.
    """
    centres, _, outputs = gradient.shape
    channels = h.shape[2]
    size = (centres + of_matrix.shape[0] - 1) // of_matrix.shape[0]
    for task in prange(of_matrix.shape[0]):
        own = of_matrix[task]
        for q in range(task * size, min((task + 1) * size, centres)):
            begin = start[first + q] - start[first]
            if weight[start[first + q]] != 1:  # the first row of a ball that is not full
                of_h[begin] *= weight[start[first + q]]
            for o in range(outputs):
                row, given, w, gw = h[begin + winner[q, o]], of_h[begin + winner[q, o]], matrix[o], own[o]
                u, v, t = gradient[q, 0, o], gradient[q, 1, o], gradient[q, 2, o]
                for c in range(channels):
                    given[0, c] += u * w[c]
                    given[1, c] += v * w[c]
                    given[2, c] += t * w[c]
                    gw[c] += u * row[0, c] + v * row[1, c] + t * row[2, c]
