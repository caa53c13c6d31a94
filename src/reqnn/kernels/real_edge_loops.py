"""The compiled loops behind `reqnn.nn.real_edge_kernels`; importing this needs numba. Shapes are those of the callers."""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled

ROWS = 32  # points of one task of a forward loop
CHUNK = 64  # channels that one task of `scatter` owns, so that no two tasks write to the same place


@compiled(parallel=True, fastmath={"contract"})
def search(y, z, idx, sign, winner, edge):  # type: ignore[no-untyped-def]
    """The winning edge of each point and channel."""
    clouds, points, channels = y.shape
    for task in prange((clouds * points + ROWS - 1) // ROWS):
        best = np.empty(channels, np.int32)  # as wide as an edge: vector instructions then choose both at once
        for row in range(task * ROWS, min((task + 1) * ROWS, clouds * points)):
            b, i = row // points, row % points
            zi, wi, ei = z[b, i], winner[b, i], edge[b, i]
            yj = y[b, idx[b, i, 0]]
            for c in range(channels):
                ei[c], best[c] = yj[c] + zi[c], 0
            for place in range(1, idx.shape[2]):
                yj, p = y[b, idx[b, i, place]], np.int32(place)
                for c in range(channels):
                    e = yj[c] + zi[c]
                    better = sign[c] * e > sign[c] * ei[c]
                    ei[c] = e if better else ei[c]
                    best[c] = p if better else best[c]
            for c in range(channels):
                wi[c] = best[c]


@compiled(parallel=True, fastmath={"contract"})
def search_and_sum(y, z, idx, sign, shift, winner, edge, sums, totals, squares):  # type: ignore[no-untyped-def]
    """The winning edges, and what all edges differ from `shift` by: the sums of a point, and of a task in float64."""
    clouds, points, channels = y.shape
    for task in prange((clouds * points + ROWS - 1) // ROWS):
        total, square = totals[task], squares[task]
        total[:] = 0
        square[:] = 0
        power, best = np.empty(channels, y.dtype), np.empty(channels, np.int32)
        for row in range(task * ROWS, min((task + 1) * ROWS, clouds * points)):
            b, i = row // points, row % points
            zi, wi, ei, si = z[b, i], winner[b, i], edge[b, i], sums[b, i]
            yj = y[b, idx[b, i, 0]]
            for c in range(channels):
                e = yj[c] + zi[c]
                d = e - shift[c]
                ei[c], best[c], si[c], power[c] = e, 0, d, d * d
            for place in range(1, idx.shape[2]):
                yj, p = y[b, idx[b, i, place]], np.int32(place)
                for c in range(channels):
                    e = yj[c] + zi[c]
                    d = e - shift[c]
                    si[c] += d
                    power[c] += d * d
                    better = sign[c] * e > sign[c] * ei[c]
                    ei[c] = e if better else ei[c]
                    best[c] = p if better else best[c]
            for c in range(channels):
                wi[c] = best[c]
                total[c] += si[c]
                square[c] += power[c]


@compiled(parallel=True)
def transpose(idx, start, source, place):  # type: ignore[no-untyped-def]
    """The edges by the neighbour that they lead to, in the order of the points that they come from."""
    clouds, points, k = idx.shape
    for b in prange(clouds):
        start[b, :] = 0
        for i in range(points):
            for p in range(k):
                start[b, idx[b, i, p] + 1] += 1
        for j in range(points):
            start[b, j + 1] += start[b, j]
        free = start[b, :points].copy()
        for i in range(points):
            for p in range(k):
                j = idx[b, i, p]
                source[b, free[j]] = i
                place[b, free[j]] = p
                free[j] += 1


@compiled(parallel=True, fastmath={"contract"})
def spread(gradient, winner, y, z, mean, slope, level, start, source, place, out):  # type: ignore[no-untyped-def]
    """At each neighbour: the gradients of the edges that won through it, and of all edges' moments."""
    clouds, points, channels = y.shape
    zero = y.dtype.type(0)
    for row in prange(clouds * points):
        b, j = row // points, row % points
        yj, oj = y[b, j], out[b, j]
        centred, deviation = np.empty(channels, y.dtype), np.zeros(channels, y.dtype)
        for c in range(channels):
            centred[c] = yj[c] - mean[c]
            oj[c] = 0
        first, last = start[b, j], start[b, j + 1]
        for edge in range(first, last):
            p = place[b, edge]
            zi, gi, wi = z[b, source[b, edge]], gradient[b, source[b, edge]], winner[b, source[b, edge]]
            for c in range(channels):
                deviation[c] += centred[c] + zi[c]
                oj[c] += gi[c] if wi[c] == p else zero
        for c in range(channels):
            oj[c] += slope[c] * deviation[c] + (last - first) * level[c]


@compiled(parallel=True, fastmath={"contract"})
def scatter(gradient, winner, idx, out):  # type: ignore[no-untyped-def]
    """The gradient of each winner, added up at the neighbour that won."""
    clouds, points, channels = gradient.shape
    chunks = (channels + CHUNK - 1) // CHUNK
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * CHUNK
        for i in range(points):
            for c in range(first, min(first + CHUNK, channels)):
                out[b, idx[b, i, winner[b, i, c]], c] += gradient[b, i, c]
