"""Copies, casts and questions about a tensor: dtype, device, size."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra, require_quaternion, sizes, structural, zero_quaternions
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import adopt


@algebra.each(
    "clone", "detach", "contiguous", "to", "type_as", "float", "double", "half", "bfloat16", "cpu", "cuda", "requires_grad_",
    "detach_", "zero_", "nan_to_num", row="structure", linear=True,
)  # fmt: skip
def componentwise(name: str, x: Q, *args: Any, **kwargs: Any) -> Q:
    """``x.clone()`` … on every component."""
    method = getattr(Tensor, name)
    kwargs.pop("memory_format", None)
    args = tuple(arg.components if isinstance(arg, Q) else arg for arg in args if not isinstance(arg, torch.memory_format))
    if not isinstance(x, Q):
        return method(x, *args, **kwargs)
    return x.same(_not_rounded(method(x.components, *args, **kwargs)))


def _not_rounded(components: Tensor) -> Tensor:
    if not components.is_floating_point():
        raise NoRuleError(f"a cast to {components.dtype} rounds single coordinates, which depends on the orientation")
    return components


@structural("type")
def cast(x: Q, dtype: Any = None, **kwargs: Any) -> Any:
    """``x.type()`` or ``x.type(dtype)``."""
    return x.components.type() if dtype is None else x.same(_not_rounded(x.components.type(dtype)))


@structural("copy_")
def copy_(x: Any, source: Any, non_blocking: bool = False) -> Q:
    """Overwrite with other quaternions."""
    require_quaternion(source, "the source of copy_")
    if not isinstance(x, Q):
        return adopt(x, zero_quaternions(x, source).same(source.expand(x.shape).components.clone()))
    return x.become(source.expand(x.user_shape).clone(), linear=True)


def _ask(*names: str) -> Any:
    return algebra.rule(*names, row="structure")


# in the channels of the user's code
_ask("size")(lambda x, dim=None: x.user_shape if dim is None else x.user_shape[dim])
_ask("dim", "ndimension")(lambda x: x.rank)
_ask("numel", "nelement")(lambda x: prod(x.user_shape))
_ask("__len__")(lambda x: int(x.user_shape[0]))
_ask("__repr__", "__str__", "__format__")(lambda x, *args: Q.__repr__(x))
_ask("is_same_size")(lambda x, other: x.shape == other.shape)
_ask("retain_grad")(lambda x: x.components.retain_grad())
_ask("isnan")(lambda x: x.components.isnan().any(0))
_ask("isinf")(lambda x: x.components.isinf().any(0))
_ask("isfinite")(lambda x: x.components.isfinite().all(0))


@algebra.each(
    "is_floating_point", "is_complex", "is_contiguous", "get_device", "element_size", "data_ptr", "is_inference",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", row="structure",
)  # fmt: skip
def ask_components(name: str, x: Q, *args: Any, **kwargs: Any) -> Any:
    """What the components answer."""
    return getattr(Tensor, name)(x.components, *args, **kwargs)


@_ask("result_type")
def result_type(*tensors: Any) -> torch.dtype:
    """The dtype of a combination."""
    return torch.result_type(*[item.components if isinstance(item, Q) else item for item in sizes(tensors)])


@structural("fill_")
def fill_(x: Q, value: Any) -> Q:
    """Zeros, the only number that is a quaternion in every orientation."""
    if value != 0:
        raise NoRuleError("fill_ with a number other than 0 writes a fixed direction")
    return x.become(x.same(torch.zeros_like(x.components)), linear=True)


@_ask("register_hook")
def register_hook(x: Q, hook: Any) -> Any:
    """A hook on the gradient, which is a quaternion tensor too."""

    def on_components(gradient: Tensor) -> Tensor | None:
        changed = hook(x.same(gradient))
        return changed.components if isinstance(changed, Q) else None

    return x.components.register_hook(on_components)
