"""Quaternion2Real found by what follows: a log-softmax is the end of a classifier (paper, section 3.5)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q


@paper.rule("log_softmax", row="Quaternion2Real")
def log_softmax(x: Q, *args: Any, **named: Any) -> Tensor:
    """In the dry run, the layer that made these logits becomes real; afterwards no quaternions arrive here."""
    context = x.context
    if context.plan is not None and context.auto_real and x.source is not None:
        context.plan.real_before(x.source)
    raise NoRuleError("a log-softmax orders and exponentiates single numbers; its input has to be real")
