"""The quaternion ReLU as a module, with a choice of c."""

from __future__ import annotations

from typing import Any

from torch import nn

from reqnn.tensor import QuaternionTensor


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
