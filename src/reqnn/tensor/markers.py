"""Real tensors that are marked: removed biases, removed transforms, and numbers that come from real inputs alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.tensor.nested import leaves


class _Companion(torch.Tensor):
    """A real tensor with a meaning of its own where it meets quaternions; among real tensors an ordinary one.

    Beside a quaternion tensor torch's own `__torch_function__` steps back (NotImplemented), and that of the quaternion tensor
    is asked.
    """

    def __deepcopy__(self, memo: dict) -> _Companion:
        return self.detach().clone().as_subclass(type(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restore_companion, (self.as_subclass(torch.Tensor), type(self))


def companion(tensor: Tensor, kind: type[_Companion]) -> Tensor:
    """Mark a tensor; while a graph is traced the marks are left out, and rules trust what the dry run has found."""
    return tensor if torch.compiler.is_compiling() else tensor.as_subclass(kind)


def _restore_companion(tensor: Tensor, kind: type[_Companion]) -> Tensor:
    return tensor.as_subclass(kind)


class RemovedBias(_Companion):
    """What stands where a bias parameter was that the code adds by hand: adding it changes nothing."""


class RemovedTransform(_Companion):
    """The identity that a removed submodule returns: ``bmm(x, trans)`` gives x back."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Copies and transposes are still the identity; what else is computed with it is an ordinary tensor."""
        out = super().__torch_function__(func, types, args, kwargs)
        if isinstance(out, cls) and getattr(func, "__name__", "") not in _STILL_IDENTITY:
            return out.as_subclass(torch.Tensor)
        return out


_STILL_IDENTITY = ("transpose", "mT", "contiguous", "clone", "detach", "to", "type_as", "float", "double", "expand", "__get__")


class CutVectors(_Companion):
    """Single coordinates, ``xyz[:, :1]``: their shape may be asked for (``torch.ones_like``), their values depend on the
    orientation, and using them raises `error`."""

    error: NoRuleError

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Shapes, and tensors like it."""
        name = getattr(func, "__name__", "")
        if name in _SHAPES or (name == "__get__" and func.__self__.__name__ in _SHAPES):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise next(leaf.error for leaf in leaves(args, kwargs or {}) if isinstance(leaf, cls))


_SHAPES = {
    "ones_like", "zeros_like", "full_like", "new_zeros", "new_ones", "new_full", "size", "dim", "numel", "shape", "ndim",
    "__len__", "dtype", "device", "layout", "is_cuda", "is_sparse", "is_floating_point", "requires_grad", "grad_fn", "_base",
}  # fmt: skip


class ScalarTensor(_Companion):
    """Numbers that come from real inputs alone (a class label, declared scalars): they may stand beside vectors."""
