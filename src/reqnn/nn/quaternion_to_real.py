"""Quaternion2Real: where quaternion features become real, invariant ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from reqnn.tensor import QuaternionTensor
from reqnn.tensor.nested import map_leaves


class Quaternion2Real(nn.Module):
    """‖f_v‖² = a² + b² + c² of each element (paper, section 3.5). Shapes: quaternions (*) → real (*), rotation-invariant."""

    def forward(self, x: QuaternionTensor) -> Tensor:
        """The squared norm of each quaternion."""
        return x.squared_norm()


def to_real(x: QuaternionTensor, owner: nn.Module | None = None) -> Tensor:
    """Real features as the rule set makes them: by its rule "quaternion_to_real", or squared norms where it has none.

    `owner` is the module before which this happens; it holds what such a rule learns.
    """
    rule = x.context.rules.find("quaternion_to_real")
    real: Tensor = x.squared_norm() if rule is None else rule.apply(x, owner)
    return real


def quaternion_to_real_hook(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """A forward pre-hook that puts Quaternion2Real before a module."""

    def convert(value: Any) -> Any:
        if not isinstance(value, QuaternionTensor):
            return value
        if value.context.plan is not None:
            value.context.plan.met("Quaternion2Real")
        return to_real(value, module)

    return map_leaves(convert, args), map_leaves(convert, kwargs)


def becomes_real_before(module: Any) -> bool:
    """Whether Quaternion2Real stands before a module."""
    return isinstance(module, nn.Module) and quaternion_to_real_hook in module._forward_pre_hooks.values()
