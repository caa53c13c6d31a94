# mypy: disallow-untyped-defs=False
"""Compiled sums of Gaussians: blocks of a k-d tree that are too far away to count are skipped, the rest is vectorised.

The exponential of the C library is a call for each number; this one is arithmetic alone, which compiles to
vector instructions: exp(t) = 2ⁿ·exp(r) with n = ⌊t/ln 2 + ½⌋, |r| ≤ ln 2 / 2, a polynomial for exp(r) and the bits of
2ⁿ written down. It is right to an ulp or two. Sums of a block are in float32, those of blocks in float64.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop

BLOCK = 128  # points of a block, at most
CHUNK = 64  # rows of a task

F = np.float32


@compiled(fastmath={"contract"})
def _exponential(t, bits):
    """exp(t) = t'·2ⁿ for t ≤ 0, in place, with the bits of 2ⁿ; polynomial of Cephes' expf."""
    for j in range(t.size):
        x = t[j] if t[j] > F(-87) else F(-87)
        n = np.floor(x * F(1.44269504088896341) + F(0.5))
        r = (x - n * F(0.693359375)) - n * F(-2.12194440e-4)
        p = F(1.9875691500e-4)
        p = p * r + F(1.3981999507e-3)
        p = p * r + F(8.3334519073e-3)
        p = p * r + F(4.1665795894e-2)
        p = p * r + F(1.6666665459e-1)
        p = p * r + F(5.0000001201e-1)
        t[j] = p * r * r + r + F(1)
        bits[j] = (np.int32(n) + np.int32(127)) << np.int32(23)


@compiled(fastmath={"contract"})
def _exponents(x, y, z, a, b, c, scale, t):
    for j in range(x.size):
        dx = x[j] - a
        dy = y[j] - b
        dz = z[j] - c
        t[j] = scale * (dx * dx + dy * dy + dz * dz)


@compiled(fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = a.dtype.type(0)
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@compiled
def _sum_rows(xyz, start, box, scale, reach, out, first, last):
    """`sum_gaussians` for rows `first` … `last` - 1 of all B·N."""
    points = xyz.shape[2]
    leaf, nodes = start.shape[0] // 2, start.shape[0]
    exponents, powers = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)
    for row in range(first, last):
        b, i = row // points, row % points
        x, y, z = xyz[b, 0], xyz[b, 1], xyz[b, 2]
        total = 0.0
        for node in range(leaf, nodes):
            dx = max(max(box[b, node, 0] - x[i], x[i] - box[b, node, 3]), 0.0)
            dy = max(max(box[b, node, 1] - y[i], y[i] - box[b, node, 4]), 0.0)
            dz = max(max(box[b, node, 2] - z[i], z[i] - box[b, node, 5]), 0.0)
            if dx * dx + dy * dy + dz * dz > reach:
                continue
            lo, hi = start[node, 0], start[node, 1]
            t, power = exponents[: hi - lo], powers[: hi - lo]
            _exponents(x[lo:hi], y[lo:hi], z[lo:hi], x[i], y[i], z[i], scale, t)
            _exponential(t, power)
            total += _dot(t, power.view(np.float32))
        out[b, i] = total


@loop()
def sum_gaussians(xyz, start, box, scale, reach, out):
    """Σ_j exp(scale·‖x_i - x_j‖²) over all within `reach`, at least, into out (B, N).

    xyz (B, 3, N) float32 in the order of its tree, whose leaves are the last of start (nodes, 2) and of box (B, nodes, 6).
    """
    rows = out.size
    for task in prange((rows + CHUNK - 1) // CHUNK):
        _sum_rows(xyz, start, box, scale, reach, out, task * CHUNK, min(rows, (task + 1) * CHUNK))
