"""`topk(sorted=False)` may return its values in any order; on the CPU this order depends on that of the points."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode


class SortedTopk(TorchFunctionMode):
    """Inside this context `topk` sorts, whatever the code asks for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "topk":
            args, kwargs = args[:4], {**kwargs, "sorted": True}
        return func(*args, **kwargs)
