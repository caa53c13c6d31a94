"""A pass in float64 through code that makes float32 tensors: where both meet, float64 wins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from reqnn.tensor.nested import map_leaves

_MAKERS = {
    "zeros", "ones", "empty", "full", "eye", "tensor", "as_tensor", "from_numpy", "arange", "linspace", "logspace", "rand",
    "randn", "normal", "float", "to", "type", "type_as",
}  # fmt: skip


class InDouble(TorchFunctionMode):
    """Operands in float32 become float64, and what the code makes or casts is float64, not float32.

    What is written into a float32 tensor that exists (``torch.FloatTensor(…)``) is rounded as without this mode.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = getattr(func, "__name__", "")
        in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")
        if name == "__get__" or isinstance(func, type(Tensor.dtype)):
            return func(*args, **(kwargs or {}))
        if name == "float" and args[0].is_floating_point():
            return args[0].double()  # not by way of float32
        named = kwargs or {}
        written, read = (args[:1], args[1:]) if in_place else ((), args)
        if _holds_float32(read) or _holds_float32(named.values()):
            read, named = map_leaves(_wide, tuple(read)), map_leaves(_wide, named)
        result = func(*written, *read, **named)
        return _wide(result) if name in _MAKERS else result


def _holds_float32(values: Iterable[Any]) -> bool:
    """Asked at every call, and mostly false: faster than a walk through nested arguments."""
    return any(
        _holds_float32(value)
        if isinstance(value, (tuple, list))
        else value is torch.float32 or getattr(value, "dtype", None) is torch.float32
        for value in values
    )


def _wide(value: Any) -> Any:
    if value is torch.float32:
        return torch.float64
    return value.double() if isinstance(value, Tensor) and value.dtype == torch.float32 else value
