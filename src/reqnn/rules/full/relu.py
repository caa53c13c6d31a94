"""Activations: the original's own for the real part, which then opens or closes the imaginary one.

s′ = φ(s),    v′ = v·γ(s)

The paper's rule acts on pure quaternions, which have no real part, and on coordinates with numbers beside them.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from reqnn.kernels.full_rows import gate, gated
from reqnn.kernels.rows import from_rows, to_rows
from reqnn.nn.full_parts import join, parts
from reqnn.rules.full.base import by_the_paper, full, loops_serve
from reqnn.tensor import QuaternionTensor as Q


def activation(name: str, x: Q, *args: Any, **kwargs: Any) -> Q:
    """The original's own of the real part, and the gate."""
    real, imaginary = parts(x)
    if real is None or (x.axis is not None and x.holds_vectors(x.axis)):
        return by_the_paper(name, x, *args, **kwargs)
    axis = x.rank - 1 if x.channel_axis is None else x.channel_axis
    if loops_serve(x, imaginary):
        imaginary = from_rows(gated(real.movedim(axis, -1).contiguous(), to_rows(imaginary, axis)), axis)
    else:
        imaginary = imaginary * gate(real)
    out = join(x, getattr(F, name)(real, *args, **kwargs), imaginary, axis)
    out.channel_axis = x.channel_axis
    return out


full.each("relu", "leaky_relu", "prelu", "rrelu", row="ReLU")(activation)
full.each(
    "elu", "gelu", "silu", "selu", "celu", "mish", "hardswish", "softplus", "relu6", "hardtanh", row="ReLU", extension=True
)(activation)
