# mypy: disallow-untyped-defs=False
"""Compiled farthest point sampling: the steps of the reference in its own arithmetic, bit for bit.

Each operation rounds once to the type of the cloud, as the separate torch operations of the reference do: nothing here
may be contracted or reordered. Only `nnan` and `nsz` are allowed, which let the maximum be taken by vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop


@compiled(fastmath={"nnan", "nsz"})
def _update(x, y, z, a, b, c, distance, total):
    """Take (a, b, c) into the sample; return the largest distance to it."""
    largest = distance.dtype.type(-np.inf)
    for i in range(x.size):
        dx = x[i] - a
        dy = y[i] - b
        dz = z[i] - c
        d = np.sqrt(dx * dx + dy * dy + dz * dz)
        total[i] += d
        d = distance[i] if distance[i] < d else d
        distance[i] = d
        largest = d if d > largest else largest
    return largest


@compiled
def _choose(distance, total, rank, threshold, slack):
    """Of the points at `threshold` or beyond: lowest rank, then largest total to within `slack`, then first."""
    lowest = np.int64(distance.size)
    most = total[0]
    first = last = 0
    for i in range(distance.size):
        if distance[i] >= threshold:
            if rank[i] < lowest:
                lowest = rank[i]
                most = total[i]
                first = last = i
            elif rank[i] == lowest:
                most = max(most, total[i])
                last = i
    enough = most - slack
    for i in range(first, last):
        if distance[i] >= threshold and rank[i] == lowest and total[i] >= enough:
            return i
    return last


@compiled
def _sample(xyz, distance, total, rank, tolerance, chosen):
    """Sample one cloud: centred xyz (3, N), first distances (N,), into chosen (n,)."""
    x, y, z = xyz[0], xyz[1], xyz[2]
    largest = distance.max()
    for step in range(chosen.size):
        i = _choose(distance, total, rank, largest - tolerance, distance.dtype.type(step) * tolerance)
        chosen[step] = i
        distance[i] = -np.inf
        largest = _update(x, y, z, x[i], y[i], z[i], distance, total)


@loop()
def sample_clouds(xyz, distance, total, rank, tolerance, chosen):
    """Sample centred clouds xyz (B, 3, N) with first distances (B, N) into chosen (B, n), one cloud a task."""
    for b in prange(xyz.shape[0]):
        _sample(xyz[b], distance[b], total[b], rank[b], tolerance[b], chosen[b])
