"""Quaternion2Real: the real parts, and what the imaginary ones still have to say: s + U·(‖p‖, ⟨p, q⟩, ⟨p × q, r⟩)."""

from __future__ import annotations

from torch import Tensor, nn

from reqnn.nn.full_parts import parts
from reqnn.rules.full.base import full, invariants, kinds, small
from reqnn.rules.options import channel_axis, uniform, whole_number
from reqnn.rules.paper.convolution import pointwise
from reqnn.tensor import QuaternionTensor as Q


@full.rule("quaternion_to_real", row="Quaternion2Real")
def read(x: Q, owner: nn.Module | None = None) -> Tensor:
    """Real, and the same in every orientation. Shapes: quaternions (*) → real (*)"""
    learned = x.context.learned("read", owner)
    axis: int = learned.constant("axis", lambda: channel_axis(x))
    real, imaginary = parts(x)
    channels = imaginary.shape[axis + 1]
    count = whole_number(x, "products")
    maps = learned.parameter("maps", (kinds(x) * count, channels), imaginary, uniform)
    found = invariants(x, pointwise(imaginary, maps, axis), count, axis)
    weights = learned.parameter("invariants", (channels, found.shape[axis]), imaginary, small)
    out = pointwise(found[None], weights, axis)[0]
    return out if real is None else out + real
