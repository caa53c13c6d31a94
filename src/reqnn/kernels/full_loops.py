"""Compiled loops in which the two parts of a full quaternion meet: invariants of rows, and the gate.

Callers are `reqnn.kernels.full_rows` and `reqnn.kernels.full_edge_loops`; shapes are theirs. When a loop here is changed, clear
numba's cache: it does not notice a change of a file that a kernel calls into.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop
from reqnn.kernels.edge_loops import _edge, _part

ROWS = 256  # of a task


@compiled(fastmath={"contract"})
def _found(y, z, j, i, count, out, q):  # type: ignore[no-untyped-def]
    """‖p‖, ⟨p, q⟩ and, where there is an r, ⟨p × q, r⟩ of the edge y[j] + z[i], or the stored row y[j], as row q of out.

    Shapes: y (*, 3, kinds·count) → out (*, kinds·count)
    """
    n, triples = np.uint64(count), y.shape[2] == 3 * count
    for c in range(n):
        p0, p1, p2 = _edge(y, z, j, i, c)
        q0, q1, q2 = _edge(y, z, j, i, n + c)
        out[q, c] = np.sqrt(p0 * p0 + p1 * p1 + p2 * p2)
        out[q, n + c] = p0 * q0 + p1 * q1 + p2 * q2
        if triples:
            r0, r1, r2 = _edge(y, z, j, i, n + n + c)
            out[q, n + n + c] = (p1 * q2 - p2 * q1) * r0 + (p2 * q0 - p0 * q2) * r1 + (p0 * q1 - p1 * q0) * r2


@compiled(fastmath={"contract"})
def _pulled(y, z, j, i, count, given, q, out):  # type: ignore[no-untyped-def]
    """The way back through `_found`, from row q of given (*, kinds·count) to row q of out (*, 3, kinds·count).

    ∂⟨p × q, r⟩ is q × r by p, r × p by q, p × q by r; that of a norm at 0 is 0. Every loop writes to one array of numbers: with
    more of them it is not vectorised.
    """
    zero, one, two, n = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(count)
    for c in range(n):
        p0, p1, p2 = _edge(y, z, j, i, c)
        square = p0 * p0 + p1 * p1 + p2 * p2
        out[q, 0, c] = given[q, c] / np.sqrt(square) if square > 0 else square
    for part in range(np.uint64(3)):
        d = two - part  # the first comes last: until then its place holds what multiplies p
        for c in range(n):
            out[q, d, c] = out[q, 0, c] * _part(y, z, j, i, d, c) + given[q, n + c] * _part(y, z, j, i, d, n + c)
        for c in range(n):
            out[q, d, n + c] = given[q, n + c] * _part(y, z, j, i, d, c)
    if y.shape[2] == 3 * count:
        for part in range(np.uint64(3)):
            a, b = (part + one) % np.uint64(3), (part + two) % np.uint64(3)
            for c in range(n):
                out[q, part, n + n + c] = zero
            for block in range(np.uint64(3)):
                at, u, v = block * n, (block + one) % np.uint64(3) * n, (block + two) % np.uint64(3) * n
                for c in range(n):
                    cross = _part(y, z, j, i, a, u + c) * _part(y, z, j, i, b, v + c)
                    cross -= _part(y, z, j, i, b, u + c) * _part(y, z, j, i, a, v + c)
                    out[q, part, at + c] += given[q, n + n + c] * cross


@loop(fastmath={"contract"})
def row_invariants(maps, count, out):  # type: ignore[no-untyped-def]
    """The invariants of every row."""
    rows, none = maps.shape[0], maps[:0]
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            k = np.uint64(i)
            _found(maps, none, k, k, count, out, k)


@loop(fastmath={"contract"})
def row_invariants_back(maps, count, gradient, out):  # type: ignore[no-untyped-def]
    """The way back through `row_invariants`."""
    rows, none = maps.shape[0], maps[:0]
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            k = np.uint64(i)
            _pulled(maps, none, k, k, count, gradient, k, out)


@loop(fastmath={"contract"})
def gated(s, v, out):  # type: ignore[no-untyped-def]
    """γ(s)·v. Shapes: s (P, C), v (P, 3, C) → out (P, 3, C)"""
    rows, channels = s.shape
    one, half = s.dtype.type(1), s.dtype.type(0.5)
    for task in prange((rows + ROWS - 1) // ROWS):
        gate = np.empty(channels, s.dtype)
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            here = s[i]
            for c in range(channels):
                gate[c] = half + half * here[c] / np.sqrt(one + here[c] * here[c])
            for d in range(3):
                vector, product = v[i, d], out[i, d]
                for c in range(channels):
                    product[c] = gate[c] * vector[c]


@loop(fastmath={"contract"})
def gated_back(s, v, gradient, of_s, of_v):  # type: ignore[no-untyped-def]
    """The way back through `gated`: γ′·⟨g, v⟩ and γ·g, with γ′ = ½(1 + s²)^(−3/2)."""
    rows, channels = s.shape
    one, half = s.dtype.type(1), s.dtype.type(0.5)
    for task in prange((rows + ROWS - 1) // ROWS):
        gate, rise = np.empty(channels, s.dtype), np.empty(channels, s.dtype)
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            here, out = s[i], of_s[i]
            for c in range(channels):
                r = one / np.sqrt(one + here[c] * here[c])
                gate[c] = half + half * here[c] * r
                rise[c] = half * r * r * r
            v0, v1, v2 = v[i, 0], v[i, 1], v[i, 2]
            g0, g1, g2 = gradient[i, 0], gradient[i, 1], gradient[i, 2]
            for c in range(channels):
                out[c] = rise[c] * (g0[c] * v0[c] + g1[c] * v1[c] + g2[c] * v2[c])
            for d in range(3):
                g, product = gradient[i, d], of_v[i, d]
                for c in range(channels):
                    product[c] = gate[c] * g[c]


@compiled(fastmath={"contract", "reassoc"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    """⟨a, b⟩ of two places (3, C)."""
    total = a.dtype.type(0)
    for d in range(3):
        one, two = a[d], b[d]
        for c in range(one.shape[0]):
            total += one[c] * two[c]
    return total


@compiled(fastmath={"contract"})
def unit_factor(total, channels, eps, dtype):  # type: ignore[no-untyped-def]
    """`reqnn.kernels.full_rows.unit_factor` of the mean squared length, from the sum over the channels of one place."""
    power, rounding = total / dtype.type(channels), dtype.type(np.finfo(dtype).eps ** (4 / 3))
    return dtype.type(1) / np.sqrt(power + eps) if power > rounding else dtype.type(0)


@loop(fastmath={"contract"})
def unit(v, eps, out):  # type: ignore[no-untyped-def]
    """v·`unit_factor` of every row. Shapes: v (P, 3, C) → out (P, 3, C)"""
    rows, _, channels = v.shape
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            size = unit_factor(_dot(v[i], v[i]), channels, eps, v.dtype)
            for d in range(3):
                row, to = v[i, d], out[i, d]
                for c in range(channels):
                    to[c] = size * row[c]


@loop(fastmath={"contract"})
def unit_back(v, eps, gradient, out):  # type: ignore[no-untyped-def]
    """The way back through `unit`: f·g − f³/C·⟨g, v⟩·v with f = 1/size."""
    rows, _, channels = v.shape
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            size = unit_factor(_dot(v[i], v[i]), channels, eps, v.dtype)
            along = size * size * size / v.dtype.type(channels) * _dot(gradient[i], v[i])
            for d in range(3):
                row, given, to = v[i, d], gradient[i, d], out[i, d]
                for c in range(channels):
                    to[c] = size * given[c] - along * row[c]
