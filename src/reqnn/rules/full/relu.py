"""Activations: the original's own for the real part, which then opens or closes the imaginary one.

s′ = φ(s),    v′ = v·γ(s)
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.full.base import full, gate, join, real_part
from reqnn.tensor import QuaternionTensor as Q


def _activation(name: str, extension: bool) -> None:
    function = getattr(F, name)

    def apply(x: Q, *args: Any, **kwargs: Any) -> Q:
        real = real_part(x)
        if real is None:
            raise NoRuleError("an activation on pure quaternions: it acts on real parts, which the first linear layer makes")
        kwargs.pop("inplace", None)
        out = join(x, function(real, *args, **kwargs), x.imaginary() * gate(real))
        out.channel_axis = x.channel_axis
        return out

    apply.__doc__ = f"``F.{name}`` of the real part, and the gate."
    full.rule(name, row="ReLU", extension=extension)(apply)


for _name in ("relu", "leaky_relu", "prelu", "rrelu"):
    _activation(_name, extension=False)
for _name in ("elu", "gelu", "silu", "selu", "celu", "mish", "hardswish", "softplus", "relu6", "hardtanh"):
    _activation(_name, extension=True)


@full.rule("clamp", "clamp_min", row="ReLU")
def clamp(x: Q, min: Any = None, max: Any = None) -> Q:
    """``clamp(min=0)`` is a ReLU; other bounds cut single coordinates."""
    if max is not None or isinstance(min, Tensor) or min != 0:
        raise NoRuleError("clamping cuts single coordinates; only clamp(min=0), a ReLU, has a rule")
    rule: Any = full.find("relu")
    out: Q = rule.apply(x)
    return out
