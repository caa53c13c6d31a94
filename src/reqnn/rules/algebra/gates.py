"""Gates: softmax, sigmoid and tanh act on single numbers, so the layer that feeds them becomes real (an extension).

In the dry run Quaternion2Real is placed before that layer, as before a head; afterwards no quaternions arrive here.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra
from reqnn.tensor import QuaternionTensor as Q

ROW = "Gate"
_WHY = {
    "softmax": "softmax orders and exponentiates single numbers; on quaternions only invariants (inner products, norms) "
    "may go into it",
    "sigmoid": "a gate must come from invariants (inner products, norms), not from quaternions themselves",
}
_ALIKE = {"softmax": ("softmax", "softmin", "gumbel_softmax"), "sigmoid": ("sigmoid", "tanh", "hardsigmoid", "logsigmoid")}


def _gate(name: str, why: str) -> None:
    def apply(x: Any, *args: Any, **named: Any) -> Tensor:
        if isinstance(x, Q) and x.context.plan is not None and not x.context.strict:
            source = x.source or x.fed_by
            if source is not None:
                x.context.plan.real_before(source, name)
        raise NoRuleError(why)

    apply.__doc__ = f"``{name}`` of quaternions: the layer that feeds it becomes real."
    algebra.rule(name, row=ROW, extension=True)(apply)


for _kind, _names in _ALIKE.items():
    for _name in _names:
        _gate(_name, _WHY[_kind])
