"""The quaternion ReLU as a module, with a choice of c."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reqnn.kernels import rows
from reqnn.kernels.power import Power
from reqnn.tensor import QuaternionTensor, safe_sqrt


def relu(x: Tensor, c: float) -> Tensor:
    """The ReLU rule on components (3, *) or (4, *), in one pass over memory where the loops can run."""
    if c <= 0 or x.dim() < 3 or not rows.serves(x):
        return relu_reference(x, c)
    unscaled = Power(x.new_ones(x.shape[2]), eps=0.0)
    return rows.from_rows(rows.relu(rows.to_rows(x, 1), unscaled, c), 1)


def relu_reference(x: Tensor, c: float) -> Tensor:
    """The rule in plain torch."""
    norm = safe_sqrt(x.square().sum(0))
    bound = norm.clamp(min=c)
    return x * (norm / torch.where(bound > 0, bound, 1))


class QuaternionReLU(nn.Module):
    """ReLU(f_v) = ‖f_v‖ / max{‖f_v‖, c} · f_v (paper, section 3.3, equation 5).

    Shapes:
        input: quaternions (*); output: the same

    Args:
        c: a positive constant, "mean" for the mean norm of the features, None for what the rule set says.
    """

    def __init__(self, c: float | str | None = None) -> None:
        super().__init__()
        self.c = c

    def forward(self, x: QuaternionTensor) -> QuaternionTensor:
        """Shrink quaternions shorter than c."""
        from reqnn.rules.paper.relu import quaternion_relu

        if x.context.plan is not None:
            x.context.plan.met("ReLU", "relu", "quaternion")
        return quaternion_relu(x, self.c)

    def extra_repr(self) -> str:
        """The constant, where one was set."""
        return "" if self.c is None else f"c={self.c}"


def turn_into_relu(module: Any) -> None:
    """Make an activation module with parameters (PReLU) a `QuaternionReLU`, in place."""
    module.__class__ = QuaternionReLU
    module._parameters.clear()
    module.c = None
