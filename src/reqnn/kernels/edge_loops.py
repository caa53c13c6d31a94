"""The compiled loops behind `reqnn.kernels.edges`.

A row is an edge from a centre i to one of its neighbours j: its feature e = y[j] + z[i] is not stored. If z is empty the rows
are stored, and row r is y[r]. The rows of a centre follow one another, from start[i] to start[i + 1]; weight (R,) is how many
places the row counts for (a ball that is not full repeats its nearest point). s (C,) is the scale of the batch-norm, bound the
constant c of the ReLU rule. Some loops work on the centres from `first` to `last` only, and on their rows. A winner w that is
tied is written as ~w < 0; see `reqnn.kernels.tied`.

Shapes:
    y: (M, 3, C); z: (P, 3, C) or (0, 3, C); neighbour: (R,) int32; start: (P + 1,) int64; weight: (R,)
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.kernels.tied_loops import direction, direction_back, kept_share

CHUNK = 32  # channels that one task of a scatter owns
SEARCHED = 64  # channels that one task of a search owns


@compiled
def _place(z, neighbour, r):  # type: ignore[no-untyped-def]
    """Which row of y an edge reads: that of its neighbour, or r itself if rows are stored."""
    return np.uint64(neighbour[r]) if z.shape[0] else np.uint64(r)


@compiled(fastmath={"contract"})
def _part(y, z, j, i, d, c):  # type: ignore[no-untyped-def]
    """One number of y[j] + z[i], or of the stored row y[j]; indices are unsigned: any check for negative ones costs vectors."""
    return y[j, d, c] + z[i, d, c] if z.shape[0] else y[j, d, c]


@compiled(fastmath={"contract"})
def _edge(y, z, j, i, c):  # type: ignore[no-untyped-def]
    """One channel of y[j] + z[i], or of the stored row y[j]."""
    return _part(y, z, j, i, 0, c), _part(y, z, j, i, 1, c), _part(y, z, j, i, 2, c)


@loop(fastmath={"contract", "reassoc"})
def power(y, z, neighbour, start, weight, sums):  # type: ignore[no-untyped-def]
    """Σ weight·‖e‖² over all rows, (blocks, C)."""
    centres, channels = start.shape[0] - 1, np.uint64(y.shape[2])
    size = (centres + sums.shape[0] - 1) // sums.shape[0]
    for block in prange(sums.shape[0]):
        total = np.zeros(y.shape[2], y.dtype)
        for i in range(block * size, min((block + 1) * size, centres)):
            for r in range(start[i], start[i + 1]):
                j, k, w = _place(z, neighbour, r), np.uint64(i), weight[r]
                for c in range(channels):
                    d, e, f = _edge(y, z, j, k, c)
                    total[c] += w * (d * d + e * e + f * f)
        for c in range(channels):
            sums[block, c] = total[c]


@loop(fastmath={"contract"})
def relu(y, z, neighbour, start, first, last, s, bound, out):  # type: ignore[no-untyped-def]
    """ReLU(s·e) of the rows of some centres, (rows, 3, C)."""
    channels, inverse = np.uint64(y.shape[2]), y.dtype.type(1) / bound
    for i in prange(first, last):
        for r in range(start[i], start[i + 1]):
            j, k, q = _place(z, neighbour, r), np.uint64(i), np.uint64(r - start[first])
            for c in range(channels):
                d, e, f = _edge(y, z, j, k, c)
                norm = s[c] * np.sqrt(d * d + e * e + f * f)
                gain = s[c] if norm >= bound else s[c] * (norm * inverse)
                out[q, 0, c] = gain * d
                out[q, 1, c] = gain * e
                out[q, 2, c] = gain * f


@loop(fastmath={"contract"})
def relu_back(y, z, neighbour, start, first, last, s, bound, gradient, share, strips, of_y, of_z, slopes):  # type: ignore[no-untyped-def]
    """The derivative of `relu` for a gradient, `share` times that of the rows: by s, a sum per centre (P, C), and by e.

    The latter is added to of_y[j] and of_z[i], or if z is empty written to of_y (rows, 3, C). With d = ⟨e, g⟩ the length also
    changes along e: s²·d/(‖e‖·bound)·e; at e = 0 nothing flows. Where several rows write to the same place, each of the
    `strips` of channels is one task. Every inner loop writes to one array: with more of them it is not vectorised.
    """
    gathered, inverse, zero = z.shape[0] > 0, y.dtype.type(1) / bound, y.dtype.type(0)
    tiny, channels = y.dtype.type(np.finfo(y.dtype).tiny), y.shape[2]
    tasks = strips if gathered else last - first
    step = (channels + strips - 1) // strips if gathered else channels
    for task in prange(tasks):
        a = np.uint64(task * step if gathered else 0)
        wide = np.uint64(max(min(step, channels - a), 0))
        work = np.empty((9, wide), y.dtype)  # e; what multiplies g; what multiplies e; the sum for s; those for z
        for i in range(first if gathered else first + task, last if gathered else first + task + 1):
            k = np.uint64(i)
            for n in range(5, 9):
                for c in range(wide):
                    work[n, c] = zero
            for r in range(start[i], start[i + 1]):
                j, q = np.uint64(neighbour[r]) if gathered else np.uint64(r), np.uint64(r - start[first])
                for d in range(np.uint64(3)):
                    if gathered:
                        for c in range(wide):
                            work[d, c] = y[j, d, a + c] + z[k, d, a + c]
                    else:
                        for c in range(wide):
                            work[d, c] = y[j, d, c]
                for c in range(wide):
                    d, e, f, scale = work[0, c], work[1, c], work[2, c], s[a + c]
                    dot = share * (d * gradient[q, 0, a + c] + e * gradient[q, 1, a + c] + f * gradient[q, 2, a + c])
                    length = np.sqrt(d * d + e * e + f * f)
                    shrink, shrinks = scale * length * inverse, scale * length < bound
                    work[3, c] = share * (scale * shrink if shrinks else scale)
                    work[4, c] = scale * scale * inverse * dot / max(length, tiny) if shrinks else zero
                    work[5, c] += (shrink + shrink) * dot if shrinks else dot
                for d in range(np.uint64(3)):
                    if gathered:
                        for c in range(wide):
                            work[d, c] = work[3, c] * gradient[q, d, a + c] + work[4, c] * work[d, c]
                            work[6 + d, c] += work[d, c]
                        for c in range(wide):
                            of_y[j, d, a + c] += work[d, c]
                    else:
                        for c in range(wide):
                            of_y[q, d, c] = work[3, c] * gradient[q, d, c] + work[4, c] * work[d, c]
            for c in range(wide):
                slopes[k, a + c] = work[5, c]
            for d in range(np.uint64(3 if gathered else 0)):
                for c in range(wide):
                    of_z[k, d, a + c] += work[6 + d, c]


@loop()
def add_to_ends(gradient, neighbour, start, first, last, of_y, of_z):  # type: ignore[no-untyped-def]
    """The gradient of every edge of some centres, added to its two ends; any number of parts."""
    parts, channels = of_y.shape[1], of_y.shape[2]
    for task in prange((channels + CHUNK - 1) // CHUNK):  # a task owns its channels: no two write to the same place
        a, b = task * CHUNK, min((task + 1) * CHUNK, channels)
        for i in range(first, last):
            for r in range(start[i], start[i + 1]):
                for part in range(parts):
                    g = gradient[r - start[first], part][a:b]
                    at_y, at_z = of_y[neighbour[r], part][a:b], of_z[i, part][a:b]
                    for c in range(b - a):
                        at_y[c] += g[c]
                        at_z[c] += g[c]


@loop(fastmath={"contract"})
def spread(y, z, neighbour, start, weight, extra, of_y, of_z):  # type: ignore[no-untyped-def]
    """extra·weight·e of all edges, added to both their ends: what comes through the batch statistics."""
    centres, channels = start.shape[0] - 1, y.shape[2]
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


@compiled
def _column(x, first, size, step, c):  # type: ignore[no-untyped-def]
    """One channel of some rows, `step` rows apart, (size, 3)."""
    e = np.empty((size, 3), x.dtype)
    for k in range(size):
        for part in range(3):
            e[k, part] = x[first + k * step, part, c]
    return e


@loop(fastmath={"contract"})
def longest_rows(x, start, weight, first, winner, out, sums):  # type: ignore[no-untyped-def]
    """The longest row of each centre and channel: its number (centres, C), itself (centres, 3, C), Σ weight·‖x‖² (centres, C).

    x holds the rows of these centres only; winner counts from the centre's first row, and is the first of equally long ones.
    """
    channels, keep = x.shape[2], kept_share(x)
    for q in prange(winner.shape[0]):
        base, begin, end = start[first], start[first + q], start[first + q + 1]
        best, second = np.full(channels, -1.0, x.dtype), np.full(channels, -1.0, x.dtype)
        chosen, total = winner[q], sums[q]
        chosen[:] = 0
        total[:] = 0
        for r in range(begin, end):
            at, w, place = np.uint64(r - base), weight[r], np.int32(r - begin)
            for c in range(np.uint64(channels)):
                length = x[at, 0, c] * x[at, 0, c] + x[at, 1, c] * x[at, 1, c] + x[at, 2, c] * x[at, 2, c]
                total[c] += w * length
                longer = length > best[c]
                shorter = best[c] if longer else length
                second[c] = shorter if shorter > second[c] else second[c]
                best[c] = length if longer else best[c]
                chosen[c] = place if longer else chosen[c]
        for c in range(channels):
            row = x[begin - base + chosen[c]]
            for part in range(3):
                out[q, part, c] = row[part, c]
        for c in range(channels):
            if second[c] >= keep * best[c] and best[c] > 0:
                e = _column(x, begin - base, end - begin, 1, c)
                out[q, 0, c], out[q, 1, c], out[q, 2, c] = direction(e, weight[begin:end])
                chosen[c] = ~chosen[c]


@compiled(fastmath={"contract"})
def _tied_rows_back(h, w, weight, u, v, t, of_h, of_w):  # type: ignore[no-untyped-def]
    """The derivative of one tied output of `longest_rows_back`: h (K, 3, C), w (C,), weight (K,), added to of_h and of_w."""
    e = np.zeros((h.shape[0], 3), h.dtype)
    for k in range(h.shape[0]):
        for part in range(3):
            for c in range(w.shape[0]):
                e[k, part] += h[k, part, c] * w[c]
    direction_back(e, weight, u, v, t)
    for k in range(h.shape[0]):
        for part in range(3):
            for c in range(w.shape[0]):
                of_h[k, part, c] += e[k, part] * w[c]
                of_w[c] += e[k, part] * h[k, part, c]


@loop(fastmath={"contract"})
def longest_rows_back(h, matrix, start, weight, first, winner, gradient, of_h, of_matrix):  # type: ignore[no-untyped-def]
    """The derivative of the longest rows of h·matrixᵀ, added to weight·of_h (rows, 3, C) and to of_matrix (tasks, O, C).

    Only winners have one: a sum over centres instead of a product over rows.
    """
    centres, _, outputs = gradient.shape
    channels = np.uint64(h.shape[2])
    size = (centres + of_matrix.shape[0] - 1) // of_matrix.shape[0]
    for task in prange(of_matrix.shape[0]):
        own, order = of_matrix[task], np.empty(outputs, np.uint32)
        for q in range(task * size, min((task + 1) * size, centres)):
            begin, end = start[first + q] - start[first], start[first + q + 1] - start[first]
            its = weight[start[first + q] : start[first + q + 1]]
            if its[0] != 1:  # the first row of a group that is not full
                for part in range(3):
                    for c in range(channels):
                        of_h[begin, part, c] *= its[0]
            place = np.zeros(end - begin + 1, np.int64)  # outputs in the order of their winners: a row stays in the cache
            for o in range(outputs):
                if winner[q, o] >= 0:
                    place[winner[q, o] + 1] += 1
                else:
                    u, v, t = gradient[q, 0, o], gradient[q, 1, o], gradient[q, 2, o]
                    _tied_rows_back(h[begin:end], matrix[o], its, u, v, t, of_h[begin:end], own[o])
            for k in range(end - begin):
                place[k + 1] += place[k]
            for o in range(outputs):
                if winner[q, o] >= 0:
                    order[place[winner[q, o]]] = o
                    place[winner[q, o]] += 1
            for n in range(place[end - begin]):
                to = np.uint64(order[n])
                r, u, v, t = np.uint64(begin + winner[q, to]), gradient[q, 0, to], gradient[q, 1, to], gradient[q, 2, to]
                for c in range(channels):
                    of_h[r, 0, c] += u * matrix[to, c]
                    of_h[r, 1, c] += v * matrix[to, c]
                    of_h[r, 2, c] += t * matrix[to, c]
                for c in range(channels):
                    own[to, c] += u * h[r, 0, c] + v * h[r, 1, c] + t * h[r, 2, c]


@compiled
def _edges(y, z, neighbour, start, i, c):  # type: ignore[no-untyped-def]
    """One channel of the edges of a centre, (K, 3)."""
    e = np.empty((start[i + 1] - start[i], 3), y.dtype)
    for k in range(e.shape[0]):
        for part in range(3):
            e[k, part] = y[neighbour[start[i] + k], part, c] + z[i, part, c]
    return e


@loop(fastmath={"contract"})
def longest(y, z, neighbour, start, weight, measured, winner, edge, sums):  # type: ignore[no-untyped-def]
    """The longest edge of each centre in each channel, as `longest_rows`; Σ weight·‖e‖² (blocks, C) if measured."""
    centres, channels, keep = z.shape[0], z.shape[2], kept_share(z)
    blocks, chunks = sums.shape[0], (channels + SEARCHED - 1) // SEARCHED
    size = (centres + blocks - 1) // blocks
    for task in prange(chunks * blocks):
        first, block = (task // blocks) * SEARCHED, task % blocks
        last = min(first + SEARCHED, channels)
        wide = last - first
        power, flat, step = np.zeros(wide, np.float64), y.ravel(), np.uint64(channels)
        best, second, total = np.empty(wide, y.dtype), np.empty(wide, y.dtype), np.empty(wide, y.dtype)
        place = np.empty(wide, np.int32)
        for i in range(block * size, min((block + 1) * size, centres)):
            best[:], second[:], place[:], total[:] = -1, -1, 0, 0
            z0, z1, z2 = z[i, 0][first:last], z[i, 1][first:last], z[i, 2][first:last]
            for r in range(start[i], start[i + 1]):
                yj, here, w = y[neighbour[r]], np.int32(r - start[i]), weight[r]
                y0, y1, y2 = yj[0][first:last], yj[1][first:last], yj[2][first:last]
                for c in range(wide):
                    e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                    length = e0 * e0 + e1 * e1 + e2 * e2
                    longer = length > best[c]
                    shorter = best[c] if longer else length
                    second[c] = shorter if shorter > second[c] else second[c]
                    best[c] = length if longer else best[c]
                    place[c] = here if longer else place[c]
                if measured:
                    for c in range(wide):
                        e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                        total[c] += w * (e0 * e0 + e1 * e1 + e2 * e2)
            won = winner[i][first:last]
            won0, won1, won2 = edge[i, 0][first:last], edge[i, 1][first:last], edge[i, 2][first:last]
            for c in range(wide):
                power[c] += total[c]
                won[c] = place[c]
                at = np.uint64(3 * channels * neighbour[start[i] + place[c]] + first + c)
                won0[c] = flat[at] + z0[c]
                won1[c] = flat[at + step] + z1[c]
                won2[c] = flat[at + step + step] + z2[c]
            ties = 0  # in vector instructions: hardly ever is there one
            for c in range(wide):
                ties += second[c] >= keep * best[c]
            for c in range(wide if ties else 0):
                if second[c] >= keep * best[c] and best[c] > 0:
                    e = _edges(y, z, neighbour, start, i, first + c)
                    won0[c], won1[c], won2[c] = direction(e, weight[start[i] : start[i + 1]])
                    won[c] = ~place[c]
        for c in range(wide):
            sums[block, first + c] = power[c]


@loop(fastmath={"contract"})
def longest_back(y, z, neighbour, start, weight, winner, gradient, slope, measured, of_y, of_z):  # type: ignore[no-untyped-def]
    """The derivative of `longest`: the winner's goes to its two ends, that of the sums, slope (C,), to all edges.

    of_y starts as 0, of_z as the gradient.
    """
    centres, channels = z.shape[0], z.shape[2]
    for task in prange((channels + CHUNK - 1) // CHUNK):
        a, b = task * CHUNK, min((task + 1) * CHUNK, channels)
        wide, factor = b - a, slope[a:b]
        if measured:
            for i in range(centres):
                for part in range(3):
                    zi, total, at_z = z[i, part][a:b], np.zeros(wide, y.dtype), of_z[i, part][a:b]
                    for r in range(start[i], start[i + 1]):
                        j, w = neighbour[r], weight[r]
                        yj, at_y = y[j, part][a:b], of_y[j, part][a:b]
                        for c in range(wide):
                            e = w * (yj[c] + zi[c])
                            total[c] += e
                            at_y[c] += e
                    for c in range(wide):
                        at_z[c] += factor[c] * total[c]
            for j in range(y.shape[0]):
                for part in range(3):
                    at_y = of_y[j, part][a:b]
                    for c in range(wide):
                        at_y[c] *= factor[c]
        for i in range(centres):
            for c in range(a, b):
                if winner[i, c] < 0:
                    e = _edges(y, z, neighbour, start, i, c)
                    direction_back(e, weight[start[i] : start[i + 1]], gradient[i, 0, c], gradient[i, 1, c], gradient[i, 2, c])
                    for part in range(3):
                        of_z[i, part, c] -= gradient[i, part, c]
                        for k in range(e.shape[0]):
                            of_y[neighbour[start[i] + k], part, c] += e[k, part]
                            of_z[i, part, c] += e[k, part]
                    continue
                j = neighbour[start[i] + winner[i, c]]
                for part in range(3):
                    of_y[j, part, c] += gradient[i, part, c]


@loop(fastmath={"contract", "reassoc"})
def weighted(y, idx, w, out):  # type: ignore[no-untyped-def]
    """Σ_k w[i, k]·y[idx[i, k]]. Shapes: y (M, D), idx and w (P, K) → out (P, D)"""
    for i in prange(idx.shape[0]):
        row = out[i]
        row[:] = 0
        for k in range(idx.shape[1]):
            yj, a = y[idx[i, k]], w[i, k]
            for c in range(row.shape[0]):
                row[c] += a * yj[c]


@loop(fastmath={"contract", "reassoc"})
def weighted_back_w(y, idx, gradient, of_w):  # type: ignore[no-untyped-def]
    """The derivative of `weighted` by w."""
    for i in prange(idx.shape[0]):
        g = gradient[i]
        for k in range(idx.shape[1]):
            yj, total = y[idx[i, k]], y.dtype.type(0)
            for c in range(g.shape[0]):
                total += g[c] * yj[c]
            of_w[i, k] = total


@loop(fastmath={"contract"})
def weighted_back_y(idx, w, gradient, of_y):  # type: ignore[no-untyped-def]
    """The derivative of `weighted` by y, added to of_y (M, D)."""
    wide = of_y.shape[1]
    for task in prange((wide + SEARCHED - 1) // SEARCHED):
        a, b = task * SEARCHED, min((task + 1) * SEARCHED, wide)
        for i in range(idx.shape[0]):
            g = gradient[i][a:b]
            for k in range(idx.shape[1]):
                at, factor = of_y[idx[i, k]][a:b], w[i, k]
                for c in range(b - a):
                    at[c] += factor * g[c]
