"""`reqnn.kernels.tied` for one group and channel, within the loops that search for the longest: rarely called.

When something here is changed, clear numba's cache: it does not notice a change of a file that a kernel calls into.
"""

from __future__ import annotations

import numpy as np

from reqnn.kernels.compile import compiled
from reqnn.kernels.tied import CANCEL


@compiled
def kept_share(x):  # type: ignore[no-untyped-def]
    """The share of the largest squared length from which on a row is tied with it."""
    return x.dtype.type(1.0 - np.finfo(x.dtype).eps ** (2 / 3))


@compiled
def _lengths(e, weight, length):  # type: ignore[no-untyped-def]
    """Lengths of the tied rows, 0 for the others, and Σ weight, Σ weight·length and Σ weight·e/length of the tied ones.

    Shapes: e (K, 3), weight (K,), length (K,)
    """
    largest = e.dtype.type(0)
    for k in range(e.shape[0]):
        length[k] = e[k, 0] * e[k, 0] + e[k, 1] * e[k, 1] + e[k, 2] * e[k, 2]
        largest = max(largest, length[k])
    limit = kept_share(e) * largest
    count = size = m0 = m1 = m2 = e.dtype.type(0)
    for k in range(e.shape[0]):
        length[k] = np.sqrt(length[k]) if length[k] >= limit else e.dtype.type(0)
        if length[k] > 0:
            count += weight[k]
            size += weight[k] * length[k]
            m0 += weight[k] * e[k, 0] / length[k]
            m1 += weight[k] * e[k, 1] / length[k]
            m2 += weight[k] * e[k, 2] / length[k]
    norm = np.sqrt(m0 * m0 + m1 * m1 + m2 * m2)
    cancels = norm <= e.dtype.type(CANCEL) * count
    return cancels, size / count, norm, m0, m1, m2


@compiled
def direction(e, weight):  # type: ignore[no-untyped-def]
    """The common direction of the tied rows at their common length."""
    cancels, size, norm, m0, m1, m2 = _lengths(e, weight, np.empty(e.shape[0], e.dtype))
    factor = e.dtype.type(0) if cancels else size / norm
    return factor * m0, factor * m1, factor * m2


@compiled
def direction_back(e, weight, g0, g1, g2):  # type: ignore[no-untyped-def]
    """The derivative of `direction`, in place of e, 0 for rows that are not tied.

    With the gradient g, m̂ = m/‖m‖, ê = e/‖e‖ and n = Σ weight, e gets weight·(⟨g, m̂⟩/n·ê + r/(‖Σ ê‖·‖e‖)·(h − ⟨h, ê⟩ê)),
    h = g − ⟨g, m̂⟩m̂.
    """
    length = np.empty(e.shape[0], e.dtype)
    cancels, size, norm, m0, m1, m2 = _lengths(e, weight, length)
    count = e.dtype.type(0)
    for k in range(e.shape[0]):
        count += weight[k] if length[k] > 0 else e.dtype.type(0)
    if not cancels:
        m0, m1, m2 = m0 / norm, m1 / norm, m2 / norm
        along = g0 * m0 + g1 * m1 + g2 * m2
        h0, h1, h2 = g0 - along * m0, g1 - along * m1, g2 - along * m2
    for k in range(e.shape[0]):
        if cancels or length[k] == 0:
            e[k, 0] = e[k, 1] = e[k, 2] = 0
            continue
        u0, u1, u2 = e[k, 0] / length[k], e[k, 1] / length[k], e[k, 2] / length[k]
        side = weight[k] * size / (norm * length[k])
        grow = weight[k] * along / count - side * (h0 * u0 + h1 * u1 + h2 * u2)
        e[k, 0], e[k, 1], e[k, 2] = grow * u0 + side * h0, grow * u1 + side * h1, grow * u2 + side * h2
