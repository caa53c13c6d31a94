"""Table 1, "ReLU": ReLU(f_v) = ‖f_v‖ / max{‖f_v‖, c} · f_v (paper, section 3.3, equation 5; proof in appendix C.2).

c is a constant, 1 in the paper's experiments, or the mean norm of the features of one sample: c = 1/d Σ_v ‖f_v‖. The same
rule replaces the relatives of the ReLU: LeakyReLU, PReLU, ELU, GELU, SiLU, ….
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.nn.activation import quaternion_relu
from reqnn.rules.algebra.gates import real_before
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q


@paper.rule("relu", "leaky_relu", "prelu", "rrelu", row="ReLU")
def relu(x: Q, *args: Any, **named: Any) -> Q:
    """The ReLU rule; a slope for negative numbers has no meaning here and goes."""
    weight = args[0] if args else named.get("weight")
    if isinstance(weight, Tensor) and x.context.plan is not None:
        x.context.plan.to_relu(weight)
    return quaternion_relu(x)


@paper.rule("elu", "gelu", "silu", "selu", "celu", "mish", "hardswish", "softplus", "relu6", row="ReLU", extension=True)
def smooth_relu(x: Q, *args: Any, **named: Any) -> Q:
    """The ReLU rule in place of its smooth relatives."""
    return quaternion_relu(x)


def relu_of_the_set(x: Q) -> Any:
    """What the rule set does for ``F.relu``."""
    rule = x.context.rules.find("relu")
    assert rule is not None
    return rule.apply(x)


@paper.rule("hardtanh", row="ReLU", extension=True)
def hardtanh(x: Q, min_val: float = -1.0, max_val: float = 1.0, **named: Any) -> Any:
    """``nn.ReLU6`` calls ``hardtanh(0, 6)``; other bounds make a gate."""
    if min_val != 0:
        raise real_before(x, "hardtanh", "a gate must come from invariants (inner products, norms), not from quaternions")
    return relu_of_the_set(x)


@paper.rule("clamp", "clamp_min", row="ReLU")
def clamp(x: Q, min: Any = None, max: Any = None) -> Any:
    """``clamp(min=0)`` is a ReLU; other bounds cut single coordinates."""
    if max is not None or isinstance(min, Tensor) or min != 0:
        raise real_before(x, "clamp", "clamping cuts single coordinates; only clamp(min=0), a ReLU, has a rule")
    return relu_of_the_set(x)
