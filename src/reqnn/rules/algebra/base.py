"""The rule set that the number system brings by itself: what any tensor of quaternions can do, whatever the layers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor
from reqnn.tensor import layout as lay
from reqnn.tensor.context import average_weights
from reqnn.tensor.quaternion_tensor import NOT_ZEROS, is_zeros

algebra = RuleSet("algebra")


def sizes(args: Sequence[Any], named: Mapping[str, Any] | None = None) -> list[Any]:
    """``view(2, 3)``, ``view((2, 3))`` and ``view(size=(2, 3))`` alike."""
    args = args or tuple((named or {}).values())
    if len(args) == 1 and isinstance(args[0], (tuple, list, torch.Size)):
        return list(args[0])
    return list(args)


def require_quaternion(x: Any, what: str) -> QuaternionTensor:
    """The operand that has to be a quaternion tensor."""
    if not isinstance(x, QuaternionTensor):
        raise NoRuleError(f"{what} must be quaternion features here, not {type(x).__name__}")
    return x


def zero_quaternions(x: Any, like: Any, buffer: bool = False) -> QuaternionTensor:
    """The target of a write: quaternions as they are, or real zeros as quaternions of the kind that are written there.

    `buffer`: other real numbers, too, such as those of an uninitialised tensor, if features will stand everywhere in it.
    """
    if isinstance(x, QuaternionTensor):
        return x
    other = not is_zeros(x)
    if not isinstance(like, QuaternionTensor) or (other and not (buffer and type(x) is Tensor and x.is_floating_point())):
        raise NoRuleError(NOT_ZEROS)
    shape, axis = list(x.shape), None if like.axis is None else like.axis - like.rank
    if axis is not None and len(shape) >= -axis and shape[axis] == lay.width(like.vectors):
        shape[axis] = len(like.vectors)
    elif axis is not None:
        raise NoRuleError(f"{lay.describe(like.vectors)} are written into zeros of shape {tuple(x.shape)}")
    out = like.like(like.components.new_zeros(like.components.shape[0], *shape), axis, like.vectors)
    if other:
        out.unwritten = torch.ones(shape, dtype=torch.bool, device=x.device)
    return out


def refuse_over_vectors(x: QuaternionTensor, dims: Sequence[int], what: str) -> None:
    """An operation that would run along x, y and z."""
    for dim in dims:
        if x.holds_vectors(dim):
            raise NoRuleError(f"{what} along axis {dim} would mix the coordinates x, y, z, which turn into one another")


def align(x: Tensor, rank: int) -> Tensor:
    """Components with logical axes of size 1 put in front, so that they broadcast against `rank` logical axes."""
    return x.reshape(x.shape[0], *[1] * (rank - (x.dim() - 1)), *x.shape[1:]) if x.dim() - 1 < rank else x


def as_real_part(real: Any, beside: QuaternionTensor) -> QuaternionTensor | None:
    """Real numbers as quaternions, beside features that store their real part (rules="full"); None beside others.

    What does not rotate may be added to, or chosen in place of, the part that does not rotate either.
    """
    if beside.axis is not None or beside.stored_shape[0] != 4 or beside.context.strict:
        return None
    real = torch.as_tensor(real, dtype=beside.dtype, device=beside.device)
    return beside.like(torch.cat([real[None], real.new_zeros(3, *real.shape)]))


def per_entry(real: Tensor, x: QuaternionTensor) -> Tensor:
    """A real tensor that broadcasts against x in channels, as one that broadcasts in entries.

    Along an axis of vectors it must have size 1 or be a parameter (re-sized in the dry run); other numbers for x, y and z of a
    vector, such as a gate, are averaged.
    """
    if x.axis is None or not lay.has_vectors(x.vectors):
        return real
    dim = x.axis - x.rank
    if real.dim() < -dim or real.shape[dim] == 1:
        return real
    if x.context.plan is not None and x.context.plan.owner(real) is not None:
        return x.context.fit(real, dim % real.dim(), x.vectors)
    if real.shape[dim] == len(x.vectors):
        return real
    fits = real.is_floating_point() and real.shape[dim] == lay.width(x.vectors)
    fixed = x.context.plan is not None and real.numel() == real.shape[dim]  # three constants are no gate
    if not x.context.names or not fits or fixed or x.context.strict:
        return representatives(real, dim, x.vectors)
    if x.context.plan is not None:
        x.context.plan.met("Weights per coordinate", "mean over x, y and z", "quaternion", extension=True)
    return average_weights(real, dim, x.vectors)


def representatives(real: Tensor, dim: int, layout: str) -> Tensor:
    """One number an entry, from a tensor that repeats it for each of the entry's channels."""
    if real.shape[dim] != lay.width(layout):
        raise NoRuleError(f"size {real.shape[dim]} of axis {dim} does not match the {lay.width(layout)} channels there")
    first = lay.starts(layout)
    chosen = real.index_select(dim, torch.tensor(first, device=real.device))
    if not torch.compiler.is_compiling() and real.device.type == "cpu":  # on a GPU the check would stall
        counts = torch.tensor([3 if entry in "vil" else 1 for entry in layout], device=real.device)
        if not torch.equal(chosen.repeat_interleave(counts, dim), real):
            raise NoRuleError(
                "the numbers differ between the coordinates x, y, z of a vector, which turn into one another; weights per "
                "coordinate must be a parameter or a view of one"
            )
    return chosen


def broadcast_axis(*operands: QuaternionTensor) -> tuple[int | None, str]:
    """The axis (counted from the end) and layout of element-wise results, checked for agreement."""
    axis: int | None = None
    layout = ""
    for x in operands:
        if x.axis is None:
            continue
        here = x.axis - x.rank
        if axis is not None and (axis, layout) != (here, x.vectors):
            raise NoRuleError(f"two axes of coordinates do not match: {lay.describe(layout)} and {lay.describe(x.vectors)}")
        axis, layout = here, x.vectors
    if axis is None:
        return None, ""
    for x in operands:
        if x.axis is None and x.rank >= -axis and x.components.shape[axis] not in (1, len(layout)):
            if x.context.plan is not None and x.components.shape[axis] == lay.width(layout):
                x.context.plan.output_vectors(x)
            raise NoRuleError(
                f"coordinates ({lay.describe(layout)}) meet {x.components.shape[axis]} quaternion features on the same axis"
            )
    return axis, layout


def as_wide(a: QuaternionTensor, b: QuaternionTensor) -> tuple[QuaternionTensor, QuaternionTensor]:
    """Coordinates beside features on one axis, where they meet an axis of features as wide as the user's code sees theirs.

    Each vector then stands for three features, all equal to it (an extension of the paper).
    """
    return _wide_beside(a, b), _wide_beside(b, a)


def _wide_beside(x: QuaternionTensor, other: QuaternionTensor) -> QuaternionTensor:
    if x.axis is None or other.axis is not None or "f" not in x.vectors or set(x.vectors) - {"f", "v"}:
        return x
    dim = x.axis - x.rank
    if other.rank < -dim or other.stored_shape[dim] != lay.width(x.vectors) or x.context.strict:
        return x
    if x.context.plan is not None:
        x.context.plan.met("Vectors as features", "three equal features", "quaternion", extension=True)
    counts = torch.tensor([lay.width(entry) for entry in x.vectors], device=x.components.device)
    return x.like(x.components.repeat_interleave(counts, dim))


def same_parts(*operands: QuaternionTensor) -> list[QuaternionTensor]:
    """Operands with the same number of stored parts: where one stores its real part, all do."""
    if any(x.components.shape[0] == 4 for x in operands):
        return [x.general() for x in operands]
    return list(operands)


def rule(*names: str, extension: bool = False) -> Any:
    """A rule of the number system."""
    return algebra.rule(*names, row="algebra", extension=extension)


def structural(*names: str) -> Any:
    """A structural rule: nothing but the order of elements changes."""
    return algebra.rule(*names, row="structure", linear=True)
