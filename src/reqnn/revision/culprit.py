"""Where a network begins to depend on the order of the points or on the orientation: the operation and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from reqnn.revision.compare import scale_of, values_of
from reqnn.revision.inputs import convert, device_of, is_numbers
from reqnn.revision.watched import WatchedCopy
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.nested import leaves
from reqnn.tensor.trace import enclosing_module, user_frame

_TOLERANCE = 1e-6
_ORIGIN = "_moved_wrongly_since"

Error = Callable[[Tensor, Tensor, float, list[int]], float]
"""(value, reference, scale, numbers of points) → how far a value is from the reference moved as the cloud was."""


@dataclass(frozen=True)
class Culprit:
    """An operation whose operands move with the cloud and whose result does not."""

    operation: str
    layer: str | None
    location: str


def find_culprit(watched: WatchedCopy, batch: tuple[Any, ...], error: Error, sizes: list[int]) -> Culprit | None:
    """The operation from which a wrong output comes; None if it is not known.

    Args:
        watched: the copy that runs.
        batch: three clouds, the second one the first one moved.
        error: how far a value is from another one moved alike.
        sizes: the numbers of points of the inputs.
    """
    root = watched.net.model
    assert isinstance(root, nn.Module)
    follower = _Follower({id(module): name for name, module in root.named_modules()}, error, sizes)
    hooks = [module.register_forward_hook(follower.leave) for name, module in root.named_modules() if name]
    hooks += [root.register_forward_pre_hook(follower.start), root.register_forward_hook(follower.stop)]
    watched.use_statistics_of_the_batch()
    try:
        with follower:
            watched.run(convert(batch, device_of(root), torch.float64))
    except Exception:  # the code takes no batch of three clouds
        return None
    finally:
        for hook in hooks:
            hook.remove()
    return follower.found


class _Follower(TorchFunctionMode):
    """Judges the result of every torch call of a pass; a wrong one remembers from which call on it is wrong."""

    def __init__(self, names: dict[int, str], error: Error, sizes: list[int]) -> None:
        super().__init__()
        self.names, self.error, self.sizes = names, error, sizes
        self.active = False
        self.found: Culprit | None = None

    def start(self, module: nn.Module, args: Any) -> None:
        """A forward pre-hook of the network."""
        self.active = True

    def stop(self, module: nn.Module, args: Any, output: Any) -> None:
        """A forward hook of the network: which call spoilt its outputs?"""
        self.active = False
        self.found = _origin(output)

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        """A forward hook of a submodule: one of ours computes without torch calls."""
        if _origin(output) is None:
            with torch._C.DisableTorchFunction():
                self._judge(type(module).__name__, args, output)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if self.active and name not in ("__get__", "__set__"):
            self._judge(name, (args, kwargs), args[0] if name == "__setitem__" else out)
        return out

    def _judge(self, name: str, operands: Any, results: Any) -> None:
        found, origin = [x for x in leaves(results) if isinstance(x, Tensor)], _origin(operands)
        wrong = [x for x in found if is_numbers(x) and self._is_wrong(x)]
        if wrong and origin is None:
            origin = Culprit(name, enclosing_module(self.names), user_frame())
        if origin is not None:  # indices are not judged: those of a wrong call, or made from such, are wrong, too
            for x in [*wrong, *(x for x in found if not is_numbers(x))]:
                setattr(x, _ORIGIN, origin)
                if isinstance(x, QuaternionTensor):
                    setattr(x.components, _ORIGIN, origin)

    def _is_wrong(self, x: Tensor) -> bool:
        """Whether the second cloud's part is not the first one's moved, along whatever axis clouds lie."""
        (value,) = values_of(x)
        with torch._C.DisableTorchFunction():
            for axis in range(value.hidden, value.data.dim()):
                if value.data.shape[axis] % 3 == 0 and value.data.shape[axis]:
                    first, second, _ = value.data.chunk(3, axis)
                    if self.error(second, first, scale_of(first), self.sizes) <= _TOLERANCE:
                        return False
            return any(size % 3 == 0 for size in value.data.shape[value.hidden :])


def _origin(tree: Any) -> Culprit | None:
    """From which call on any of these tensors is wrong."""
    return next((origin for leaf in leaves(tree) if (origin := getattr(leaf, _ORIGIN, None)) is not None), None)
