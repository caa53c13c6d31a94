"""Compiled loops in which the two parts of a full quaternion meet: invariants of rows, and the gate.

Callers are `reqnn.kernels.full_rows` and `reqnn.kernels.full_edge_loops`; shapes are theirs. When a loop here is changed, clear
numba's cache: it does not notice a change of a file that a kernel calls into.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop

ROWS = 256  # of a task
WIDE = 16  # channels that are worked on at a time: a number that the compiler knows, for loops this short


@compiled(fastmath={"contract"}, inline="always")
def _found_at(e, i, count, c, out, q):  # type: ignore[no-untyped-def]
    """The invariants of the c-th triple."""
    m, n = count + c, 2 * count + c
    p0, p1, p2, q0, q1, q2 = e[i, 0, c], e[i, 1, c], e[i, 2, c], e[i, 0, m], e[i, 1, m], e[i, 2, m]
    out[q, c] = np.sqrt(p0 * p0 + p1 * p1 + p2 * p2)
    out[q, m] = p0 * q0 + p1 * q1 + p2 * q2
    if e.shape[2] == 3 * count:
        out[q, n] = (p1 * q2 - p2 * q1) * e[i, 0, n] + (p2 * q0 - p0 * q2) * e[i, 1, n] + (p0 * q1 - p1 * q0) * e[i, 2, n]


@compiled(fastmath={"contract"})
def _found(e, i, count, out, q):  # type: ignore[no-untyped-def]
    """‖p‖, ⟨p, q⟩ and, where there is an r, ⟨p × q, r⟩ of row i, as row q of out.

    Shapes: e (*, 3, kinds·count) → out (*, kinds·count)
    """
    for a in range(0, count - WIDE + 1, WIDE):
        for c in range(a, a + WIDE):
            _found_at(e, i, count, c, out, q)
    for c in range(count - count % WIDE, count):
        _found_at(e, i, count, c, out, q)


@compiled(fastmath={"contract"}, inline="always")
def _pulled_at(e, i, count, c, given, q, out):  # type: ignore[no-untyped-def]
    """The way back for the c-th triple: ∂⟨p × q, r⟩ is q × r by p, r × p by q, p × q by r; that of a norm at 0 is 0."""
    m, n = count + c, 2 * count + c
    p0, p1, p2, q0, q1, q2 = e[i, 0, c], e[i, 1, c], e[i, 2, c], e[i, 0, m], e[i, 1, m], e[i, 2, m]
    square = p0 * p0 + p1 * p1 + p2 * p2
    along, inner = (given[q, c] / np.sqrt(square) if square > 0 else square), given[q, m]
    if e.shape[2] == 3 * count:
        r0, r1, r2, triple = e[i, 0, n], e[i, 1, n], e[i, 2, n], given[q, n]
        out[q, 0, c] = along * p0 + inner * q0 + triple * (q1 * r2 - q2 * r1)
        out[q, 1, c] = along * p1 + inner * q1 + triple * (q2 * r0 - q0 * r2)
        out[q, 2, c] = along * p2 + inner * q2 + triple * (q0 * r1 - q1 * r0)
        out[q, 0, m] = inner * p0 + triple * (r1 * p2 - r2 * p1)
        out[q, 1, m] = inner * p1 + triple * (r2 * p0 - r0 * p2)
        out[q, 2, m] = inner * p2 + triple * (r0 * p1 - r1 * p0)
        out[q, 0, n] = triple * (p1 * q2 - p2 * q1)
        out[q, 1, n] = triple * (p2 * q0 - p0 * q2)
        out[q, 2, n] = triple * (p0 * q1 - p1 * q0)
    else:
        out[q, 0, c], out[q, 1, c], out[q, 2, c] = along * p0 + inner * q0, along * p1 + inner * q1, along * p2 + inner * q2
        out[q, 0, m], out[q, 1, m], out[q, 2, m] = inner * p0, inner * p1, inner * p2


@compiled(fastmath={"contract"})
def _pulled(e, i, count, given, q, out):  # type: ignore[no-untyped-def]
    """The way back through `_found`, for row i of e and row q of given (*, kinds·count) and out (*, 3, kinds·count)."""
    for a in range(0, count - WIDE + 1, WIDE):
        for c in range(a, a + WIDE):
            _pulled_at(e, i, count, c, given, q, out)
    for c in range(count - count % WIDE, count):
        _pulled_at(e, i, count, c, given, q, out)


@loop(fastmath={"contract"})
def row_invariants(maps, count, out):  # type: ignore[no-untyped-def]
    """The invariants of every row."""
    rows = maps.shape[0]
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            _found(maps, i, count, out, i)


@loop(fastmath={"contract"})
def row_invariants_back(maps, count, gradient, out):  # type: ignore[no-untyped-def]
    """The way back through `row_invariants`."""
    rows = maps.shape[0]
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            _pulled(maps, i, count, gradient, i, out)


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


@compiled(fastmath={"contract", "reassoc"})
def unit_factor(e, eps):  # type: ignore[no-untyped-def]
    """`reqnn.kernels.full_rows.unit_factor` of the mean squared length of the channels of one place (3, C)."""
    power = _dot(e, e) / e.dtype.type(e.shape[1])
    rounding = e.dtype.type(np.finfo(e.dtype).eps ** (4 / 3))
    return e.dtype.type(1) / np.sqrt(power + eps) if power > rounding else e.dtype.type(0)


@loop(fastmath={"contract"})
def unit(v, eps, out):  # type: ignore[no-untyped-def]
    """v·`unit_factor` of every row. Shapes: v (P, 3, C) → out (P, 3, C)"""
    rows, _, channels = v.shape
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            size = unit_factor(v[i], eps)
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
            size = unit_factor(v[i], eps)
            along = size * size * size / v.dtype.type(channels) * _dot(gradient[i], v[i])
            for d in range(3):
                row, given, to = v[i, d], gradient[i, d], out[i, d]
                for c in range(channels):
                    to[c] = size * given[c] - along * row[c]
