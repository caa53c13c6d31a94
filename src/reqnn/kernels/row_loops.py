"""The compiled loops behind `reqnn.kernels.rows`.

A row is one place of the network: the three parts of all its channels side by side, x (P, 3, C). The scale s (C,) is that of
the batch-norm, c that of the ReLU rule (0: no ReLU). Sums over places go by blocks of rows, as many as `sums` (blocks, C) has,
so that they do not depend on the number of threads; the caller adds up the blocks in float64.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.kernels.compile import loop
from reqnn.kernels.edge_loops import _column
from reqnn.kernels.tied_loops import direction, direction_back, kept_share

BLOCK = 128  # rows that one task works on


@loop(fastmath={"contract", "reassoc"})
def slopes(x, s, bound, gradient, sums):  # type: ignore[no-untyped-def]
    """∂/∂s of `edge_loops.relu`, summed over places: ⟨g, u′⟩ = gain·⟨g, x⟩·(2 where the ReLU shrinks, else 1)."""
    places, _, channels = x.shape
    size = (places + sums.shape[0] - 1) // sums.shape[0]
    for block in prange(sums.shape[0]):
        total = np.zeros(channels, x.dtype)
        for p in range(block * size, min((block + 1) * size, places)):
            for c in range(channels):
                d, e, f = x[p, 0, c], x[p, 1, c], x[p, 2, c]
                r = s[c] * np.sqrt(d * d + e * e + f * f)
                gain = x.dtype.type(1) if r >= bound else 2 * (r / bound)
                total[c] += gain * (d * gradient[p, 0, c] + e * gradient[p, 1, c] + f * gradient[p, 2, c])
        for c in range(channels):
            sums[block, c] = total[c]


@loop(fastmath={"contract"})
def backward(x, s, bound, gradient, extra, out):  # type: ignore[no-untyped-def]
    """∂/∂x of `edge_loops.relu`, applied to the gradient, and extra·x, which comes through the batch statistics."""
    places, _, channels = x.shape
    tiny = np.finfo(x.dtype).tiny
    for block in prange((places + BLOCK - 1) // BLOCK):
        for p in range(block * BLOCK, min((block + 1) * BLOCK, places)):
            for c in range(channels):
                d, e, f = x[p, 0, c], x[p, 1, c], x[p, 2, c]
                u, v, w = gradient[p, 0, c], gradient[p, 1, c], gradient[p, 2, c]
                r = s[c] * np.sqrt(d * d + e * e + f * f)
                shrinks = r < bound
                gain = s[c] * (r / bound) if shrinks else s[c]
                # The length also changes along x: s³⟨x, g⟩/(r·bound)·x; at x = 0 nothing flows.
                along = s[c] * s[c] * s[c] * (d * u + e * v + f * w) / (max(r, tiny) * bound) if shrinks else s[c] * 0
                along += extra[c]
                out[p, 0, c] = gain * u + along * d
                out[p, 1, c] = gain * v + along * e
                out[p, 2, c] = gain * w + along * f


@loop(fastmath={"contract"})
def longest(x, inner, size, winner, out):  # type: ignore[no-untyped-def]
    """The longest of `size` rows, `inner` rows apart, in each channel: its place (Q, C) and itself (Q, 3, C).

    The first of equally long ones is the winner w, written as ~w < 0 if it is tied; see `reqnn.kernels.tied`.
    """
    _, _, channels = x.shape
    keep = kept_share(x)
    for q in prange(winner.shape[0]):
        first = (q // inner) * size * inner + q % inner
        best, second = np.full(channels, -1.0, x.dtype), np.full(channels, -1.0, x.dtype)
        chosen = winner[q]
        chosen[:] = 0
        for k in range(size):
            row, here = x[first + k * inner], np.int32(k)
            for c in range(channels):
                length = row[0, c] * row[0, c] + row[1, c] * row[1, c] + row[2, c] * row[2, c]
                longer = length > best[c]
                shorter = best[c] if longer else length
                second[c] = shorter if shorter > second[c] else second[c]
                best[c] = length if longer else best[c]
                chosen[c] = here if longer else chosen[c]
        for c in range(channels):
            row = x[first + chosen[c] * inner]
            for part in range(3):
                out[q, part, c] = row[part, c]
        for c in range(channels):
            if second[c] >= keep * best[c] and best[c] > 0:
                found = direction(_column(x, first, size, inner, c), np.ones(size, x.dtype))
                out[q, 0, c], out[q, 1, c], out[q, 2, c] = found
                chosen[c] = ~chosen[c]


@loop(fastmath={"contract"})
def longest_backward(x, inner, size, winner, gradient, extra, out):  # type: ignore[no-untyped-def]
    """The gradient at the winners, and extra·x everywhere."""
    _, _, channels = x.shape
    for q in prange(winner.shape[0]):
        first = (q // inner) * size * inner + q % inner
        for k in range(size):
            row, given = x[first + k * inner], out[first + k * inner]
            for part in range(3):
                for c in range(channels):
                    given[part, c] = extra[c] * row[part, c]
        for c in range(channels):
            if winner[q, c] < 0:
                e = _column(x, first, size, inner, c)
                direction_back(e, np.ones(size, x.dtype), gradient[q, 0, c], gradient[q, 1, c], gradient[q, 2, c])
                for k in range(size):
                    for part in range(3):
                        out[first + k * inner, part, c] += e[k, part]
                continue
            given = out[first + winner[q, c] * inner]
            for part in range(3):
                given[part, c] += gradient[q, part, c]
