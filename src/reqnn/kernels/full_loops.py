"""Compiled loops in which the two parts of a full quaternion meet: invariants of rows, and the gate.

Callers are `reqnn.kernels.full_rows` and `reqnn.kernels.full_edge_loops`; shapes are theirs. When a loop here is changed, clear
numba's cache: it does not notice a change of a file that a kernel calls into.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled, loop

ROWS = 256  # of a task


@compiled(fastmath={"contract"})
def _found(e, count, out):  # type: ignore[no-untyped-def]
    """‖p‖, ⟨p, q⟩ and, where there is an r, ⟨p × q, r⟩ at one place. Shapes: e (3, kinds·count) → out (kinds·count,)"""
    p0, p1, p2 = e[0][:count], e[1][:count], e[2][:count]
    q0, q1, q2 = e[0][count : 2 * count], e[1][count : 2 * count], e[2][count : 2 * count]
    length, inner = out[:count], out[count : 2 * count]
    for c in range(count):
        length[c] = np.sqrt(p0[c] * p0[c] + p1[c] * p1[c] + p2[c] * p2[c])
        inner[c] = p0[c] * q0[c] + p1[c] * q1[c] + p2[c] * q2[c]
    if e.shape[1] == 3 * count:
        r0, r1, r2 = e[0][2 * count :], e[1][2 * count :], e[2][2 * count :]
        triple = out[2 * count :]
        for c in range(count):
            triple[c] = (
                (p1[c] * q2[c] - p2[c] * q1[c]) * r0[c]
                + (p2[c] * q0[c] - p0[c] * q2[c]) * r1[c]
                + (p0[c] * q1[c] - p1[c] * q0[c]) * r2[c]
            )


@compiled(fastmath={"contract"})
def _pulled(e, count, given, weight, out):  # type: ignore[no-untyped-def]
    """The way back through `_found`: ∂⟨p × q, r⟩ is q × r by p, r × p by q, p × q by r; that of a norm at 0 is 0.

    Shapes: e (3, kinds·count), given (kinds·count,) → out (3, kinds·count); weight (count,) is room to work in
    """
    of_length, of_inner = given[:count], given[count : 2 * count]
    p0, p1, p2 = e[0][:count], e[1][:count], e[2][:count]
    for c in range(count):
        length = np.sqrt(p0[c] * p0[c] + p1[c] * p1[c] + p2[c] * p2[c])
        weight[c] = of_length[c] / length if length > 0 else 0
    for d in range(3):
        p, q = e[d][:count], e[d][count : 2 * count]
        of_p, of_q = out[d][:count], out[d][count : 2 * count]
        for c in range(count):
            of_p[c] = weight[c] * p[c] + of_inner[c] * q[c]
            of_q[c] = of_inner[c] * p[c]
    if e.shape[1] == 3 * count:
        of_triple = given[2 * count :]
        for d in range(3):
            one, two = (d + 1) % 3, (d + 2) % 3
            p1, p2 = e[one][:count], e[two][:count]
            q1, q2 = e[one][count : 2 * count], e[two][count : 2 * count]
            r1, r2 = e[one][2 * count :], e[two][2 * count :]
            of_p, of_q, of_r = out[d][:count], out[d][count : 2 * count], out[d][2 * count :]
            for c in range(count):
                of_p[c] += of_triple[c] * (q1[c] * r2[c] - q2[c] * r1[c])
                of_q[c] += of_triple[c] * (r1[c] * p2[c] - r2[c] * p1[c])
            for c in range(count):
                of_r[c] = of_triple[c] * (p1[c] * q2[c] - p2[c] * q1[c])


@loop(fastmath={"contract"})
def row_invariants(maps, count, out):  # type: ignore[no-untyped-def]
    """The invariants of every row."""
    rows = maps.shape[0]
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            _found(maps[i], count, out[i])


@loop(fastmath={"contract"})
def row_invariants_back(maps, count, gradient, out):  # type: ignore[no-untyped-def]
    """The way back through `row_invariants`."""
    rows = maps.shape[0]
    for task in prange((rows + ROWS - 1) // ROWS):
        weight = np.empty(count, maps.dtype)
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            _pulled(maps[i], count, gradient[i], weight, out[i])


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


@loop(fastmath={"contract"})
def unit(v, eps, out):  # type: ignore[no-untyped-def]
    """v / √(1/C Σ_c ‖v_c‖² + ε) of every row. Shapes: v (P, 3, C) → out (P, 3, C)"""
    rows, _, channels = v.shape
    for task in prange((rows + ROWS - 1) // ROWS):
        for i in range(task * ROWS, min((task + 1) * ROWS, rows)):
            size = v.dtype.type(1) / np.sqrt(_dot(v[i], v[i]) / v.dtype.type(channels) + eps)
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
            size = v.dtype.type(1) / np.sqrt(_dot(v[i], v[i]) / v.dtype.type(channels) + eps)
            along = size * size * size / v.dtype.type(channels) * _dot(gradient[i], v[i])
            for d in range(3):
                row, given, to = v[i, d], gradient[i, d], out[i, d]
                for c in range(channels):
                    to[c] = size * given[c] - along * row[c]
