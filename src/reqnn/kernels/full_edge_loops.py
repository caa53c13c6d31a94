"""The compiled loops behind `reqnn.nn.full_edges`; importing this needs numba. Shapes are those of the callers.

A task owns a cloud, forward also only some of its points, so that backward no two tasks write to the same place. Short inner
loops over channels, with at most two written arrays, for the compiler to do several channels at once.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import compiled

POINTS = 64  # of a task on the way forth


@compiled(parallel=True, fastmath={"contract"})
def add_ends(t, a, b, idx, sums):  # type: ignore[no-untyped-def]
    """t_ij += a_j + b_i, in place; Σ and Σ² over the edges of a cloud: sums (B, 2, O) float64."""
    clouds, points, neighbours, channels = t.shape
    for n in prange(clouds):
        total, squares = np.zeros(channels, np.float64), np.zeros(channels, np.float64)
        for i in range(points):
            once, twice = np.zeros(channels, t.dtype), np.zeros(channels, t.dtype)
            bi = b[n, i]
            for place in range(neighbours):
                s, aj = t[n, i, place], a[n, idx[n, i, place]]
                for c in range(channels):
                    s[c] += aj[c] + bi[c]
                for c in range(channels):
                    once[c] += s[c]
                    twice[c] += s[c] * s[c]
            for c in range(channels):
                total[c] += once[c]
                squares[c] += twice[c]
        sums[n, 0] = total
        sums[n, 1] = squares


@compiled(fastmath={"contract", "reassoc"})
def _power(y, z):  # type: ignore[no-untyped-def]
    """Σ_c ‖y_c + z_c‖²."""
    total = y.dtype.type(0)
    for d in range(3):
        one, two = y[d], z[d]
        for c in range(one.shape[0]):
            e = one[c] + two[c]
            total += e * e
    return total


@compiled(parallel=True, fastmath={"contract"})
def pool(s, y, z, idx, scale, shift, slope, unit, real, winner, imaginary):  # type: ignore[no-untyped-def]
    """The largest u of each channel, behind the leaky ReLU, and the mean of the gated imaginary parts."""
    clouds, points, neighbours, channels = s.shape
    blocks = (points + POINTS - 1) // POINTS
    one, half, share = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(1) / s.dtype.type(neighbours)
    for task in prange(clouds * blocks):
        b, block = task // blocks, task % blocks
        gate = np.empty(channels, s.dtype)
        for i in range(block * POINTS, min((block + 1) * POINTS, points)):
            best, place_of = real[b, i], winner[b, i]
            best[:] = -np.inf
            place_of[:] = 0
            imaginary[b, i] = 0
            for place in range(neighbours):
                j, here = idx[b, i, place], s[b, i, place]
                factor = share
                if unit > 0:
                    factor = share / np.sqrt(_power(y[b, j], z[b, i]) / s.dtype.type(channels) + unit)
                for c in range(channels):
                    u = scale[c] * here[c] + shift[c]
                    gate[c] = factor * (half + half * u / np.sqrt(one + u * u))
                for c in range(channels):
                    u = scale[c] * here[c] + shift[c]
                    larger = u > best[c]
                    place_of[c] = place if larger else place_of[c]
                    best[c] = u if larger else best[c]
                for d in range(3):
                    yj, zi, total = y[b, j, d], z[b, i, d], imaginary[b, i, d]
                    for c in range(channels):
                        total[c] += gate[c] * (yj[c] + zi[c])
            for c in range(channels):
                best[c] = best[c] if best[c] > 0 else slope * best[c]


@compiled(parallel=True, fastmath={"contract"})
def pool_back(s, y, z, idx, scale, shift, slope, unit, winner, of_real, of_imaginary, of_u, of_y, of_z, sums):  # type: ignore[no-untyped-def]
    """The way back through `pool` to u (B, N, k, O), y and z; Σ of_u and Σ of_u·s of a cloud: sums (B, 2, O) float64.

    With the gradient g, factor f (1/k, or 1/k over the size of the edge), γ = ½ + ½u/√(1 + u²), γ′ = ½(1 + u²)^(−3/2):

        u gets f·γ′·⟨g, e⟩,    e gets f·γ·g − f·f²k²/O·Σ_c γ⟨g, e⟩ · e, the second part where the size divides
    """
    clouds, points, neighbours, channels = s.shape
    one, half, zero = s.dtype.type(1), s.dtype.type(0.5), s.dtype.type(0)
    share, width = one / s.dtype.type(neighbours), s.dtype.type(channels)
    for b in prange(clouds):
        work = np.empty((4, channels), s.dtype)
        gate, rise, dot, at_winner = work[0], work[1], work[2], work[3]
        total, weighted = np.zeros(channels, np.float64), np.zeros(channels, np.float64)
        of_y[b] = 0
        of_z[b] = 0
        for i in range(points):
            once, twice = np.zeros(channels, s.dtype), np.zeros(channels, s.dtype)
            wins, given = winner[b, i], of_real[b, i]
            for c in range(channels):
                u = scale[c] * s[b, i, wins[c], c] + shift[c]
                at_winner[c] = given[c] if u > 0 else slope * given[c]
            z0, z1, z2 = z[b, i, 0], z[b, i, 1], z[b, i, 2]
            g0, g1, g2 = of_imaginary[b, i, 0], of_imaginary[b, i, 1], of_imaginary[b, i, 2]
            for place in range(neighbours):
                j, here, out = idx[b, i, place], s[b, i, place], of_u[b, i, place]
                y0, y1, y2 = y[b, j, 0], y[b, j, 1], y[b, j, 2]
                for c in range(channels):
                    u = scale[c] * here[c] + shift[c]
                    r = one / np.sqrt(one + u * u)
                    gate[c] = half + half * u * r
                    rise[c] = half * r * r * r
                for c in range(channels):
                    dot[c] = g0[c] * (y0[c] + z0[c]) + g1[c] * (y1[c] + z1[c]) + g2[c] * (y2[c] + z2[c])
                factor, shrink = share, zero
                if unit > 0:
                    inverse = one / np.sqrt(_power(y[b, j], z[b, i]) / width + unit)
                    factor = share * inverse
                    shrink = factor * inverse * inverse / width * _inner(gate, dot)
                for c in range(channels):
                    out[c] = factor * rise[c] * dot[c] + (at_winner[c] if wins[c] == place else zero)
                for c in range(channels):
                    once[c] += out[c]
                    twice[c] += out[c] * here[c]
                for d in range(3):
                    yj, zi, gi = y[b, j, d], z[b, i, d], of_imaginary[b, i, d]
                    at_j, at_i = of_y[b, j, d], of_z[b, i, d]
                    for c in range(channels):
                        value = factor * gate[c] * gi[c] - shrink * (yj[c] + zi[c])
                        at_j[c] += value
                        at_i[c] += value
            for c in range(channels):
                total[c] += once[c]
                weighted[c] += twice[c]
        sums[b, 0] = total
        sums[b, 1] = weighted


@compiled(fastmath={"contract", "reassoc"})
def _inner(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for c in range(a.shape[0]):
        total += a[c] * b[c]
    return total


@compiled(parallel=True, fastmath={"contract"})
def spread(of_u, s, idx, scale, constant, linear, of_a, of_b):  # type: ignore[no-untyped-def]
    """of_u becomes scale·of_u + constant + linear·s, the gradient of s_ij, in place; its sums at both ends of each edge."""
    clouds, points, neighbours, channels = s.shape
    for b in prange(clouds):
        of_a[b] = 0
        of_b[b] = 0
        for i in range(points):
            at_i = of_b[b, i]
            for place in range(neighbours):
                out, here, at_j = of_u[b, i, place], s[b, i, place], of_a[b, idx[b, i, place]]
                for c in range(channels):
                    out[c] = scale[c] * out[c] + constant[c] + linear[c] * here[c]
                for c in range(channels):
                    at_j[c] += out[c]
                    at_i[c] += out[c]
