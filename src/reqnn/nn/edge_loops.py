"""The compiled loops behind `reqnn.nn.edge_kernels`; importing this needs numba. Shapes are those of the callers."""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.points.kernels.compile import compiled

CHUNK = 64  # channels that one task of a backward loop owns, so that no two tasks write to the same place


@compiled(parallel=True, fastmath={"contract"})
def search(y, z, idx, winner, edge):  # type: ignore[no-untyped-def]
    """The longest edge of each point and channel."""
    clouds, points, _, channels = y.shape
    for row in prange(clouds * points):
        b, i = row // points, row % points
        longest, best = np.full(channels, -1.0, y.dtype), np.zeros(channels, np.int32)
        zi, wi, ei = z[b, i], winner[b, i], edge[b, i]
        for place in range(idx.shape[2]):
            yj, here = y[b, idx[b, i, place]], np.int32(place)
            for c in range(channels):  # selects, no branches: several channels an instruction
                e0, e1, e2 = yj[0, c] + zi[0, c], yj[1, c] + zi[1, c], yj[2, c] + zi[2, c]
                length = e0 * e0 + e1 * e1 + e2 * e2
                longer = length > longest[c]
                longest[c] = length if longer else longest[c]
                best[c] = here if longer else best[c]
        for c in range(channels):
            j = idx[b, i, best[c]]
            wi[c] = j
            for d in range(3):
                ei[d, c] = y[b, j, d, c] + zi[d, c]


@compiled(parallel=True, fastmath={"contract"})
def search_and_sum(y, z, idx, winner, edge, sums, rows):  # type: ignore[no-untyped-def]
    """The longest edges, the sums of all edges of a point, and of their squared lengths."""
    clouds, points, _, channels = y.shape
    for row in prange(clouds * points):
        b, i = row // points, row % points
        longest, best = np.full(channels, -1.0, y.dtype), np.zeros(channels, np.int32)
        zi, wi, ei, si, power = z[b, i], winner[b, i], edge[b, i], sums[b, i], rows[row]
        si[:] = 0
        power[:] = 0
        for place in range(idx.shape[2]):
            yj, here = y[b, idx[b, i, place]], np.int32(place)
            for c in range(channels):
                e0, e1, e2 = yj[0, c] + zi[0, c], yj[1, c] + zi[1, c], yj[2, c] + zi[2, c]
                si[0, c] += e0
                si[1, c] += e1
                si[2, c] += e2
                length = e0 * e0 + e1 * e1 + e2 * e2
                power[c] += length
                longer = length > longest[c]
                longest[c] = length if longer else longest[c]
                best[c] = here if longer else best[c]
        for c in range(channels):
            j = idx[b, i, best[c]]
            wi[c] = j
            for d in range(3):
                ei[d, c] = y[b, j, d, c] + zi[d, c]


@compiled(parallel=True, fastmath={"contract"})
def scatter(gradient, winner, out):  # type: ignore[no-untyped-def]
    """The gradient of each winner, added up at the neighbour that won."""
    clouds, points, _, channels = gradient.shape
    chunks = (channels + CHUNK - 1) // CHUNK
    for task in prange(clouds * chunks):  # a task owns its channels: no two write to the same place
        b, first = task // chunks, (task % chunks) * CHUNK
        last = min(first + CHUNK, channels)
        for i in range(points):
            for c in range(first, last):
                j = winner[b, i, c]
                for d in range(3):
                    out[b, j, d, c] += gradient[b, i, d, c]


@compiled(parallel=True, fastmath={"contract"})
def spread(y, z, idx, out):  # type: ignore[no-untyped-def]
    """All edges of which a point is the neighbour, added up."""
    clouds, points, _, channels = y.shape
    chunks = (channels + CHUNK - 1) // CHUNK
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * CHUNK
        last = min(first + CHUNK, channels)
        for i in range(points):
            for place in range(idx.shape[2]):
                j = idx[b, i, place]
                for d in range(3):
                    for c in range(first, last):
                        out[b, j, d, c] += y[b, j, d, c] + z[b, i, d, c]
