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
def _update(x, y, z, a, b, c, distance):
    """Take (a, b, c) into the sample; return the largest distance to it."""
    largest = distance.dtype.type(-np.inf)
    for i in range(x.size):
        dx = x[i] - a
        dy = y[i] - b
        dz = z[i] - c
        d = np.sqrt(dx * dx + dy * dy + dz * dz)
        d = distance[i] if distance[i] < d else d
        distance[i] = d
        largest = d if d > largest else largest
    return largest


@compiled
def _told_apart(x, y, z, i, chosen, weights, size):
    """Σ_t w_t·‖x - s_t‖ and Σ_t w_t·det(x, s_{t-1}, s_t)/R² of point i over the points chosen so far."""
    total = sides = a = b = c = x.dtype.type(0)
    for t in range(chosen.size):
        j = chosen[t]
        dx, dy, dz = x[i] - x[j], y[i] - y[j], z[i] - z[j]
        d, e, f = x[j] / size, y[j] / size, z[j] / size
        side = (b * f - c * e) * x[i] + (c * d - a * f) * y[i] + (a * e - b * d) * z[i]
        total += weights[t] * np.sqrt(dx * dx + dy * dy + dz * dz)
        sides += weights[t] * side
        a, b, c = d, e, f
    return total, sides


@compiled
def _choose(x, y, z, distance, rank, threshold, slack, chosen, weights, size):
    """Of the points at `threshold` or beyond: lowest rank, then distinguished by those chosen to within `slack`, then first."""
    lowest = np.int64(distance.size)
    first = last = 0
    for i in range(distance.size):
        if distance[i] >= threshold:
            if rank[i] < lowest:
                lowest = rank[i]
                first = last = i
            elif rank[i] == lowest:
                last = i
    if first == last:
        return first
    keys, count = np.empty((last - first + 1, 2), x.dtype), 0
    index = np.empty(last - first + 1, np.int64)
    most = side = distance.dtype.type(-np.inf)
    for i in range(first, last + 1):
        if distance[i] >= threshold and rank[i] == lowest:
            index[count] = i
            keys[count, 0], keys[count, 1] = _told_apart(x, y, z, i, chosen, weights, size)
            most = max(most, keys[count, 0])
            count += 1
    for k in range(count):
        if keys[k, 0] >= most - slack:
            side = max(side, keys[k, 1])
    for k in range(count):
        if keys[k, 0] >= most - slack and keys[k, 1] >= side - slack:
            return index[k]
    return first


@compiled
def _sample(xyz, distance, rank, tolerance, slack, size, weights, chosen):
    """Sample one cloud: centred xyz (3, N), first distances (N,), into chosen (n,)."""
    x, y, z = xyz[0], xyz[1], xyz[2]
    largest = distance.max()
    used = 0
    for step in range(chosen.size):
        i = _choose(x, y, z, distance, rank, largest - tolerance, slack, chosen[:used], weights, size)
        chosen[step] = i
        used += weights[step] > 0
        distance[i] = -np.inf
        largest = _update(x, y, z, x[i], y[i], z[i], distance)


@loop()
def sample_clouds(xyz, distance, rank, tolerance, slack, size, weights, chosen):
    """Sample centred clouds xyz (B, 3, N) with first distances (B, N) into chosen (B, n), one cloud a task."""
    for b in prange(xyz.shape[0]):
        _sample(xyz[b], distance[b], rank[b], tolerance[b], slack[b], size[b, 0], weights, chosen[b])
