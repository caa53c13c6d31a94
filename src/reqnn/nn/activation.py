"""The quaternion ReLU as a module, with a choice of c."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reqnn.kernels import rows
from reqnn.kernels.power import Power
from reqnn.nn.deferred import Deferred
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


def quaternion_relu(x: QuaternionTensor, c: float | str | None = None) -> QuaternionTensor:
    """‖f‖ / max{‖f‖, c} · f for each element."""
    c = x.context.rules.option("c") if c is None else c
    if c != "mean" and float(c) > 0 and isinstance(x.deferred, Deferred) and x.deferred.c == 0:
        return x.defer(x.deferred.with_relu(float(c)))
    if c != "mean":
        return x.same(relu(x.components, float(c)))
    norm = x.norm_of_elements()
    # c = 1/d Σ_v ‖f_v‖ over the d channels of one place; axis 1 if no layer has said which axis they are on
    axis = x.channel_axis if x.channel_axis is not None else min(1, x.rank - 1)
    bound = torch.maximum(norm, norm.mean(axis, keepdim=True)) if x.rank else norm
    return x.same(x.components * (norm / torch.where(bound > 0, bound, 1)))


class QuaternionReLU(nn.Module):
    """ReLU(f_v) = ‖f_v‖ / max{‖f_v‖, c} · f_v (paper, section 3.3, equation 5). Shapes: quaternions (*) → (*).

    c is a positive constant, "mean" for the mean norm of the features, None for what the rule set says.
    """

    def __init__(self, c: float | str | None = None) -> None:
        super().__init__()
        self.c = c

    def forward(self, x: QuaternionTensor) -> QuaternionTensor:
        """Shrink quaternions shorter than c."""
        if x.context.plan is not None:
            x.context.plan.met("ReLU", "relu", "quaternion")
        return quaternion_relu(x, self.c)

    def extra_repr(self) -> str:
        """The constant, where one was set."""
        return "" if self.c is None else f"c={self.c}"
