"""The compiled loops behind `reqnn.nn.relu_kernel`; importing this needs numba.

Shapes:
    x, gradient, out: (P, 3, Q), the parts of a quaternion Q numbers apart
"""

from __future__ import annotations

import numpy as np
from numba import prange

from reqnn.points.kernels.compile import compiled

BLOCK = 4096  # numbers of one part that a task works on


@compiled(parallel=True, fastmath={"contract"})
def forward(x, c, out):  # type: ignore[no-untyped-def]
    """‖f‖ / max{‖f‖, c} · f, one pass over memory."""
    outer, _, inner = x.shape
    blocks = (inner + BLOCK - 1) // BLOCK
    for task in prange(outer * blocks):
        p, first = task // blocks, (task % blocks) * BLOCK
        for q in range(first, min(first + BLOCK, inner)):
            a, b, d = x[p, 0, q], x[p, 1, q], x[p, 2, q]
            norm = np.sqrt(a * a + b * b + d * d)
            factor = norm / max(norm, c)
            out[p, 0, q] = a * factor
            out[p, 1, q] = b * factor
            out[p, 2, q] = d * factor


@compiled(parallel=True, fastmath={"contract"})
def backward(x, gradient, c, out):  # type: ignore[no-untyped-def]
    """g where ‖f‖ > c, else (‖f‖·g + ⟨f, g⟩/‖f‖·f) / c, and 0 at f = 0."""
    outer, _, inner = x.shape
    blocks = (inner + BLOCK - 1) // BLOCK
    for task in prange(outer * blocks):
        p, first = task // blocks, (task % blocks) * BLOCK
        for q in range(first, min(first + BLOCK, inner)):
            a, b, d = x[p, 0, q], x[p, 1, q], x[p, 2, q]
            u, v, w = gradient[p, 0, q], gradient[p, 1, q], gradient[p, 2, q]
            norm = np.sqrt(a * a + b * b + d * d)
            if norm >= c:
                out[p, 0, q], out[p, 1, q], out[p, 2, q] = u, v, w
            elif norm > 0:
                along = (a * u + b * v + d * w) / norm
                out[p, 0, q] = (norm * u + along * a) / c
                out[p, 1, q] = (norm * v + along * b) / c
                out[p, 2, q] = (norm * w + along * d) / c
            else:
                out[p, 0, q], out[p, 1, q], out[p, 2, q] = 0, 0, 0
