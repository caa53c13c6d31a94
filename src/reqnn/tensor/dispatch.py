"""From a torch call on a quaternion tensor to the rule for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from reqnn.errors import NoRuleError
from reqnn.tensor.markers import ScalarTensor, companion
from reqnn.tensor.nested import leaves, map_leaves
from reqnn.tensor.protocols import Rule, Rules
from reqnn.tensor.quaternion_tensor import QuaternionTensor, adopt
from reqnn.tensor.trace import enclosing_module, user_frame, user_functions

_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "rsub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__rtruediv__": "reciprocal_times", "__pow__": "pow", "__rpow__": "rpow", "__neg__": "neg",
    "__matmul__": "matmul", "__rmatmul__": "rmatmul", "__abs__": "abs", "__pos__": "positive",
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__idiv__": "div_",
    "__ipow__": "pow_", "__eq__": "eq", "__ne__": "ne", "__gt__": "gt", "__lt__": "lt", "__ge__": "ge", "__le__": "le",
    "true_divide": "div", "divide": "div", "subtract": "sub", "multiply": "mul", "concat": "cat", "concatenate": "cat",
    "negative": "neg", "absolute": "abs", "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim",
    "clip": "clamp",
}  # fmt: skip

_WHY = dict.fromkeys(("cross_entropy", "nll_loss"), "a loss takes single numbers: only invariants may go into it")
_WHY |= dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), "a recurrent layer depends on the order of the points")

_VIEWS = (
    "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "expand", "flatten", "unflatten", "contiguous",
    "__getitem__", "narrow", "select", "movedim",
)  # fmt: skip
"""Structural rules whose results may share memory with their operand."""

_RESHAPING = ("unsqueeze", "squeeze", "transpose", "t")  # in-place forms that change the shape, not the numbers


def call(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What `QuaternionTensor.__torch_function__` does."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        return _attribute(func, name, args)
    operands = list(quaternions(*args, **kwargs))
    context = operands[0].context
    rule, in_place = _find(context.rules, _OPERATORS.get(name, name), kwargs)
    args = _positional(name, args, kwargs)
    try:
        for operand in operands:
            operand._check_fresh()
            if operand.unwritten is not None and not (name == "__setitem__" and operand is args[0]):
                operand.check_written()
        if (rule is None or rule.row != "structure") and all(operand.only_scalars for operand in operands):
            return func(*_reals(args), **_reals(kwargs))
        if rule is None:
            raise NoRuleError(_WHY.get(_OPERATORS.get(name, name).rstrip("_"), "no rule is registered for this operation"))
        if rule.extension and context.strict:
            raise NoRuleError(f"the rule for it goes beyond the paper ({rule.row}), and strict=True refuses those")
        if kwargs.pop("out", None) is not None:
            raise NoRuleError("out= writes into a given tensor; use the returned one")
        result = NotImplemented
        if rule.gathered is not None and context.gathers:
            result = rule.gathered(*args, **kwargs)
        if result is NotImplemented:
            result = rule.apply(*args, **kwargs)
        elif rule.name in _VIEWS and isinstance(result, QuaternionTensor) and not _picks(rule, args):
            result.view_of = functools.partial(rule.apply, *args, **kwargs)
    except NoRuleError as error:
        source = operands[0].source or operands[0].fed_by
        raise error.located(name, enclosing_module(context.names), user_frame(), source, user_functions()) from None
    _finish(result, operands)
    if any(operand.context is not context for operand in operands):
        for out in quaternions(result, args[0] if name == "__setitem__" else ()):
            out.context = context.whole or context  # clouds of a loop are joined
    if context.plan is not None:
        context.plan.record(rule, result)
    if in_place:
        target = args[0]
        if type(target) is torch.Tensor and type(result) is torch.Tensor:
            return target.copy_(result)  # distances, say: dist.addmm_(1, -2, x, y.T)
        try:
            if isinstance(result, QuaternionTensor) and not isinstance(target, QuaternionTensor):
                return adopt(target, result)  # x.new_zeros(…).scatter_add_(…)
            if not isinstance(result, QuaternionTensor):
                raise NoRuleError("quaternion features cannot take real values in place")
        except NoRuleError as error:
            raise error.located(name, enclosing_module(context.names), user_frame()) from None
        return target.reshaped_to(result) if rule.name in _RESHAPING else target.become(result, rule.linear)
    return result


QuaternionTensor.dispatch = staticmethod(call)


def _picks(rule: Rule, args: Sequence[Any]) -> bool:
    """Whether ``x[index]`` has index tensors, and so copies what it picks."""
    index = args[1] if rule.name == "__getitem__" else ()
    return any(isinstance(item, (torch.Tensor, list)) for item in (index if isinstance(index, tuple) else (index,)))


def _find(rules: Rules, name: str, kwargs: dict[str, Any]) -> tuple[Rule | None, bool]:
    """The rule and whether the call is in place."""
    in_place = bool(kwargs.pop("inplace", False))
    rule = rules.find(name)
    if rule is None and name.endswith("_") and not name.endswith("__"):
        base = name.rstrip("_")
        return rules.find(_OPERATORS.get(base, base)), True
    return rule, in_place


def _positional(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """Operands given by torch's own argument names, and numpy's spelling of ``dim`` and ``keepdim``."""
    for numpy, torch_name in (("axis", "dim"), ("keepdims", "keepdim")):
        if numpy in kwargs:
            kwargs[torch_name] = kwargs.pop(numpy)
    if name == "where":
        return args
    if name.rstrip("_") in ("add", "sub", "subtract") and len(args) == 3:  # the old order, (p, α, q)
        kwargs["alpha"], args = args[1], (args[0], args[2])
    for key in ("input", "self", "tensors", "other", "mat2", "vec2", "x1", "x2"):
        if key in kwargs:
            args = (*args, kwargs.pop(key))
    return args


def quaternions(*args: Any, **kwargs: Any) -> Iterator[QuaternionTensor]:
    """Every quaternion tensor in nested arguments or results."""
    return (leaf for leaf in leaves(*args, **kwargs) if isinstance(leaf, QuaternionTensor))


def _reals(tree: Any) -> Any:
    """Tensors of declared scalars as the plain real tensors that they are."""
    return map_leaves(
        lambda leaf: companion(leaf.components[0], ScalarTensor) if isinstance(leaf, QuaternionTensor) else leaf, tree
    )


def _finish(result: Any, operands: list[QuaternionTensor]) -> None:
    """Results remember which layer made them and which tensors share their memory."""
    for out in quaternions(result):
        if any(out is operand for operand in operands):
            continue
        if out.source is None:
            out.source = operands[0].source
        if out.fed_by is None:
            out.fed_by = next((operand.fed_by for operand in operands if operand.fed_by is not None), None)
        if out.channel_axis is None and out.context.plan is not None:
            out.channel_axis = _channels_after(operands[0], out)
        elif out.channel_axis is None and out.stored_shape == operands[0].stored_shape:
            out.channel_axis = operands[0].channel_axis
        if out.view_of is not None:
            out.share_memory_of(operands[0])
        if out._components is None:  # deferred: nothing else to share yet
            continue
        storage = out.components.untyped_storage()._cdata
        for operand in operands:
            if operand._components is not None and operand.components.untyped_storage()._cdata == storage:
                out.share_memory_of(operand)


def _channels_after(before: QuaternionTensor, after: QuaternionTensor) -> int | None:
    """Where the channel axis of a tensor is in what was made of it: in the dry run, where sizes are plain numbers.

    A view tells by its strides; elsewhere the axis stays where it is, or is the only one of its size.
    """
    axis, old, new = before.channel_axis, before.components, after.components
    if axis is None:
        return None
    size, alike = old.shape[axis + 1], [d for d in range(after.rank) if new.shape[d + 1] == old.shape[axis + 1]]
    if old.untyped_storage()._cdata == new.untyped_storage()._cdata and size > 1:
        slices = range(after.rank) if after.rank == before.rank else alike
        alike = [d for d in slices if new.stride(d + 1) == old.stride(axis + 1) and new.shape[d + 1] > 1]
    elif before.rank == after.rank and (axis in alike or all(d == axis for d in _unequal(old, new))):
        return axis
    return alike[0] if len(alike) == 1 else None


def _unequal(a: torch.Tensor, b: torch.Tensor) -> list[int]:
    """The logical axes on which two tensors of components have different sizes."""
    return [d for d in range(a.dim() - 1) if a.shape[d + 1] != b.shape[d + 1]]


def _attribute(func: Any, name: str, args: Sequence[Any]) -> Any:
    """Reading ``x.shape``, ``x.dtype``, …; structural ones (``x.T``) go to their rule."""
    x, attribute = args[0], func.__self__.__name__
    if name == "__set__":
        if attribute == "requires_grad":
            x.components.requires_grad = args[1]
            return None
        raise NoRuleError(f"x.{attribute} = … on quaternion features").located(attribute, None, user_frame())
    if attribute == "shape":
        return x.user_shape
    if attribute == "ndim":
        return x.rank
    if attribute == "data":
        out = x.same(x.components.data)
        out.share_memory_of(x)
        return out
    if attribute in ("T", "mT", "H", "mH"):
        return torch.transpose(x, -2, -1) if attribute[0] == "m" else torch.permute(x, tuple(range(x.rank))[::-1])
    if attribute in ("grad", "real", "imag"):
        raise NoRuleError(f"x.{attribute} of quaternion features").located(attribute, None, user_frame())
    kept = x.still_deferred
    if kept is not None and attribute in ("dtype", "device", "is_cuda", "layout"):
        return getattr(kept.raw, attribute)  # known without computing anything
    return getattr(x.components, attribute)
