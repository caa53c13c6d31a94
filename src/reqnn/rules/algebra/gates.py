"""Functions of single numbers, gates above all: the layer that feeds them becomes real (an extension).

In the dry run Quaternion2Real is placed before that layer, as before a head; afterwards no quaternions arrive here. Features
that no layer has made, such as coordinates, have no such form.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra
from reqnn.tensor import QuaternionTensor as Q

ROW = "Gate"
_KINDS = {
    "softmax orders and exponentiates single numbers; on quaternions only invariants (inner products, norms) may go into it": (
        "softmax", "softmin", "gumbel_softmax", "logsumexp",
    ),
    "a gate must come from invariants (inner products, norms), not from quaternions themselves": (
        "sigmoid", "hardsigmoid", "logsigmoid", "log_sigmoid", "softsign", "glu", "erf", "threshold", "_threshold",
    ),
    "the exponential of coordinates depends on the orientation": ("exp", "exp2", "expm1"),
    "sines and cosines of coordinates depend on the orientation": ("sin", "cos", "tan"),
    "an element-wise function of coordinates is not equivariant": ("log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal"),
    "quaternions are not ordered; compare norms": ("gt", "lt", "ge", "le", "eq", "ne"),
}  # fmt: skip
_WHY_TANH = next(why for why, names in _KINDS.items() if "sigmoid" in names)


def real_before(x: Any, name: str, why: str) -> NoRuleError:
    """In the dry run, ask for Quaternion2Real before the layer that feeds an operation; else the reason why not."""
    if isinstance(x, Q) and x.context.plan is not None and not x.context.strict:
        source = x.source or x.fed_by
        if source is not None:
            x.context.plan.real_before(source, name)
    return NoRuleError(why)


@algebra.each(*(name for names in _KINDS.values() for name in names), row=ROW, extension=True)
def gate(name: str, x: Any, *args: Any, **named: Any) -> Tensor:
    """A function of single numbers: the layer that feeds it becomes real."""
    why = next(why for why, names in _KINDS.items() if name in names)
    raise real_before(next((value for value in (x, *args) if isinstance(value, Q)), x), name, why)


@algebra.rule("tanh", row=ROW, extension=True)
def tanh(x: Any) -> Tensor:
    """``tanh``: the layer that feeds it becomes real; if coordinates come from that layer, v·tanh‖v‖/‖v‖."""
    plan = x.context.plan
    if plan is not None and x.source in plan.keep:
        plan.output_vectors(x)
    if x.axis is None or set(x.vectors) - {"v", "l"} or (plan is not None and x.source not in plan.keep):
        raise real_before(x, "tanh", _WHY_TANH)
    norm = x.norm_of_elements()
    return x.same(x.components * (norm.tanh() / norm.clamp(min=1e-12)))
