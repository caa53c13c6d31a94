"""The compiled loops behind `reqnn.nn.edge_kernels`; importing this needs numba. Shapes are those of the callers.

A task owns some channels of a cloud, forward also some of its points: what it reads of y again and again then fits in a
core's own cache, and backward no two tasks write to the same place. The innermost loops write to one or two arrays each: of
more, the compiler does not see that they are different, and works on one channel at a time.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.points.kernels.compile import compiled

SEARCHED = 64  # channels of a task of the search
RETURNED = 32  # channels of a task of the way back, which reads and writes


@compiled(parallel=True, fastmath={"contract"})
def search(y, z, idx, measured, winner, edge, sums):  # type: ignore[no-untyped-def]
    """The longest edge of each point and channel, and, if wanted, Σ ‖e‖² over the points of a block: sums (B, blocks, O)."""
    clouds, points, _, channels = y.shape
    blocks, chunks = sums.shape[1], (channels + SEARCHED - 1) // SEARCHED
    size = (points + blocks - 1) // blocks
    for task in prange(clouds * chunks * blocks):
        b, rest = task // (chunks * blocks), task % (chunks * blocks)
        first, block = (rest // blocks) * SEARCHED, rest % blocks
        last = min(first + SEARCHED, channels)
        power, flat, step = np.zeros(last - first, np.float64), y[b].ravel(), np.uint64(channels)
        for i in range(block * size, min((block + 1) * size, points)):
            longest, best = np.full(last - first, -1.0, y.dtype), np.zeros(last - first, np.int32)
            total = np.zeros(last - first, y.dtype)
            z0, z1, z2 = z[b, i, 0][first:last], z[b, i, 1][first:last], z[b, i, 2][first:last]
            for place in range(idx.shape[2]):
                yj, here = y[b, idx[b, i, place]], np.int32(place)
                y0, y1, y2 = yj[0][first:last], yj[1][first:last], yj[2][first:last]
                for c in range(last - first):  # selects, no branches: several channels an instruction
                    e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                    length = e0 * e0 + e1 * e1 + e2 * e2
                    longer = length > longest[c]
                    longest[c] = length if longer else longest[c]
                    best[c] = here if longer else best[c]
                if measured:
                    for c in range(last - first):
                        e0, e1, e2 = y0[c] + z0[c], y1[c] + z1[c], y2[c] + z2[c]
                        total[c] += e0 * e0 + e1 * e1 + e2 * e2
            won, neighbours = winner[b, i][first:last], idx[b, i]
            won0, won1, won2 = edge[b, i, 0][first:last], edge[b, i, 1][first:last], edge[b, i, 2][first:last]
            for c in range(last - first):
                power[c] += total[c]
                won[c] = best[c]
                at = np.uint64(3 * channels * neighbours[best[c]] + first + c)  # unsigned: no check for negative indices
                won0[c] = flat[at] + z0[c]
                won1[c] = flat[at + step] + z1[c]
                won2[c] = flat[at + step + step] + z2[c]
        sums[b, block, first:last] = power


@compiled(parallel=True, fastmath={"contract"})
def pull(y, z, idx, winner, gradient, weight, of_y, of_z):  # type: ignore[no-untyped-def]
    """Each winner's gradient goes to its two ends, and weight·e_ij, for every edge, to both of its own."""
    clouds, points, _, channels = y.shape
    chunks = (channels + RETURNED - 1) // RETURNED
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * RETURNED
        last = min(first + RETURNED, channels)
        of_y[b, :, :, first:last] = 0
        for i in range(points):
            for d in range(3):
                zi, total = z[b, i, d][first:last], np.zeros(last - first, y.dtype)
                for place in range(idx.shape[2]):
                    j = idx[b, i, place]
                    yj, oj = y[b, j, d][first:last], of_y[b, j, d][first:last]
                    for c in range(last - first):
                        e = yj[c] + zi[c]
                        total[c] += e
                        oj[c] += e
                for c in range(first, last):
                    of_z[b, i, d, c] = gradient[b, i, d, c] + weight[c] * total[c - first]
        of_y[b, :, :, first:last] *= weight[first:last]
        for i in range(points):
            for c in range(first, last):
                j = idx[b, i, winner[b, i, c]]
                for d in range(3):
                    of_y[b, j, d, c] += gradient[b, i, d, c]


@compiled(parallel=True)
def scatter(gradient, winner, idx, out):  # type: ignore[no-untyped-def]
    """The gradient of each winner, added up at the neighbour that won."""
    clouds, points, _, channels = gradient.shape
    chunks = (channels + RETURNED - 1) // RETURNED
    for task in prange(clouds * chunks):
        b, first = task // chunks, (task % chunks) * RETURNED
        last = min(first + RETURNED, channels)
        out[b, :, :, first:last] = 0
        for i in range(points):
            for c in range(first, last):
                j = idx[b, i, winner[b, i, c]]
                for d in range(3):
                    out[b, j, d, c] += gradient[b, i, d, c]
