"""Sums of quaternions, multiples by real numbers, and the element-wise inner product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra, align, as_real_part, as_wide, broadcast_axis, per_entry, same_parts, structural
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay
from reqnn.tensor.markers import RemovedBias
from reqnn.tensor.quaternion_tensor import is_zeros


def rule(*names: str) -> Any:
    """A rule of the number system: linear in the quaternions."""
    return algebra.rule(*names, row="algebra", linear=True)


@rule("add")
def add(a: Any, b: Any, *, alpha: float = 1) -> Any:
    """p + q; a parameter that is added is a bias, and goes (paper, section 3.3, "Convolution")."""
    if not isinstance(b, Q):
        return _add_real(a, b, alpha)
    if not isinstance(a, Q):
        return _add_real(b if alpha == 1 else mul(b, alpha), a)
    a, b = as_wide(*same_parts(a, b))
    axis, layout = broadcast_axis(a, b)
    rank = max(a.rank, b.rank)
    return a.like(torch.add(align(a.components, rank), align(b.components, rank), alpha=alpha), axis, layout)


def _add_real(x: Q, other: Any, factor: float = 1) -> Q:
    """x + factor·other: only zeros may be added, or what is to go; to features with a real part, any numbers."""
    if isinstance(other, (int, float)) and other == 0:
        return x.same(x.components.clone())  # what is added to next in place is not x
    if isinstance(other, RemovedBias) or is_zeros(other):
        return _broadcast_like(x, other)
    real = as_real_part(other, x)
    if real is not None:
        return add(x, real, alpha=factor)
    if isinstance(other, Tensor) and x.context.plan is not None and x.context.plan.owner(other) is not None:
        _refuse_sets(x, other)
        if x.context.plan.drop(other):
            return _broadcast_like(x, other)
    given = f"the number {other}" if not isinstance(other, Tensor) else f"a real tensor of shape {tuple(other.shape)}"
    raise NoRuleError(
        f"{given} is added to quaternion features. A number that does not rotate with the cloud cannot be added to what does; "
        "only parameters (biases) are dropped"
    )


def _refuse_sets(x: Q, parameter: Tensor) -> None:
    """A bias is the same for all points. A parameter with axes of its own is a set, of kernel points say: not to be dropped."""
    own = [size for d, size in enumerate(reversed(parameter.shape), 1) if size > 1 and x.holds_vectors(-d) is False]
    wider = torch.broadcast_shapes(x.user_shape, parameter.shape) != x.user_shape
    if wider or (own and x.axis is not None and x.holds_vectors(x.axis)):
        raise NoRuleError(
            f"a parameter of shape {tuple(parameter.shape)} is added to, or subtracted from, {lay.describe(x.layout_on(-1))} "
            f"of shape {tuple(x.user_shape)}: a learned set of points or features, not a bias. Fixed points do not rotate with "
            "the cloud; coordinates= lets the submodule that does this compute in the cloud's PCA frame"
        )


def _broadcast_like(x: Q, other: Tensor) -> Q:
    """What adding zeros of that shape gives."""
    rank = max(x.rank, other.dim())
    components, axis = align(x.components, rank), None if x.axis is None else x.axis - x.rank
    wide = [1] * (rank - other.dim()) + list(other.shape)
    if axis is not None:
        wide[axis] = len(x.vectors)
    shape = [theirs if ours == 1 else ours for ours, theirs in zip(components.shape[1:], wide, strict=True)]
    return x.like(components.expand(-1, *shape).clone(), axis, x.vectors)  # a sum, of which x is no part


@algebra.rule("mul", row="algebra", linear=True)
def mul(a: Any, b: Any) -> Any:
    """λ·q for real λ; ⟨p, q⟩ for two quaternions: real and invariant to rotation."""
    if isinstance(a, Q) and isinstance(b, Q):
        return inner(a, b)
    x, factor = (a, b) if isinstance(a, Q) else (b, a)
    if not isinstance(x, Q):
        return a * b
    return _elementwise(torch.mul, x, factor)


def inner(a: Q, b: Q) -> Tensor:
    """⟨p, q⟩ = p₁q₁ + p₂q₂ + p₃q₃ of each pair of elements; one number where the user's code had three products."""
    for x, gate in ((a, b), (b, a)):
        layer = gate.source or gate.fed_by
        if x.context.plan is not None and "s" in x.vectors and gate.axis is None and layer:
            x.context.plan.real_before(layer, "mul")  # vectors beside numbers are multiplied by numbers
    broadcast_axis(a, b)
    a, b = same_parts(a, b)
    rank = max(a.rank, b.rank)
    return (align(a.components, rank) * align(b.components, rank)).sum(0)


def _elementwise(operation: Callable[..., Tensor], x: Q, factor: Any) -> Q:
    """λ·q or q / λ for a number, or for a real tensor that broadcasts."""
    if not isinstance(factor, Tensor):
        return x.same(operation(x.components, factor))
    factor = per_entry(factor, x)
    parts = align(x.components, max(x.rank, factor.dim()))
    return x.like(operation(parts, factor), None if x.axis is None else x.axis - x.rank, x.vectors)


@rule("div")
def div(x: Any, divisor: Any, *, rounding_mode: str | None = None) -> Q:
    """q / λ for real λ."""
    if not isinstance(x, Q) or isinstance(divisor, Q):
        raise NoRuleError("something is divided by quaternion features; divide by their norm")
    if rounding_mode is not None:
        raise NoRuleError("rounding depends on the orientation")
    return _elementwise(torch.div, x, divisor)


@algebra.rule("pow", "square", row="algebra")
def power(x: Any, exponent: Any = 2) -> Tensor:
    """q² = ⟨q, q⟩ = ‖q‖² as the elements of a norm or a distance; no other power."""
    if not isinstance(x, Q) or isinstance(exponent, Tensor) or exponent != 2:
        raise NoRuleError("only the square of quaternion features is invariant, as in a norm or a distance")
    return x.squared_norm()


@algebra.rule("abs", row="algebra")
def absolute(x: Q) -> Tensor:
    """‖q‖ of each element."""
    if x.axis is not None and x.holds_vectors(x.axis):
        raise NoRuleError("the absolute value of single coordinates depends on the orientation; take the norm of the vector")
    return x.norm_of_elements()


@structural("zeros_like", "empty_like")
def zeros_like(x: Q, **named: Any) -> Q:
    """Zero quaternions of the same shape."""
    return x.same(torch.zeros_like(x.components, **_without_memory_format(named)))


def _without_memory_format(named: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in named.items() if key != "memory_format"}


@algebra.rule("randn_like", row="Isotropic noise", extension=True)
def randn_like(x: Q, **named: Any) -> Q:
    """Normally distributed vectors: a rotated one is as likely as itself."""
    return x.same(torch.randn_like(x.components, **_without_memory_format(named)))


@algebra.rule("ones_like", "rand_like", "full_like", row="structure")
def numbers_like(x: Q, *args: Any, **named: Any) -> Tensor:
    """Real numbers of the same shape would not rotate with the cloud."""
    raise NoRuleError("real numbers 'like' quaternion features would be of another kind; make them with torch.ones(x.shape) …")
