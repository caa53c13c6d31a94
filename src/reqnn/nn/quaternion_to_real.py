"""Quaternion2Real: where quaternion features become real, invariant ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from reqnn.tensor import QuaternionTensor


class Quaternion2Real(nn.Module):
    """‖f_v‖² = a² + b² + c² of each element (paper, section 3.5): real, the same in every orientation.

    Shapes:
        input: quaternions (*); output: real (*)
    """

    def forward(self, x: QuaternionTensor) -> Tensor:
        """The squared norm of each quaternion."""
        return x.squared_norm()


def quaternion_to_real_hook(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """A forward pre-hook that puts Quaternion2Real before a module."""
    return tuple(map(_to_real, args)), {key: _to_real(value) for key, value in kwargs.items()}


def _to_real(value: Any) -> Any:
    if isinstance(value, QuaternionTensor):
        if value.context.plan is not None:
            value.context.plan.met_real()
        return value.squared_norm()
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(map(_to_real, value))
    return value
