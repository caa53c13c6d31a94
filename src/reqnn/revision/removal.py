"""What replaces a removed submodule: its input, or the identity of a (B, k, k) transform; by what the submodule computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.nn.removed import Removed, RemovedSeveral


@dataclass(frozen=True)
class Call:
    """One call of a submodule in a pass of the original: what it took, and what it returned."""

    module: nn.Module
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any

    def identity(self, name: str) -> nn.Module:
        """The module that takes its place."""
        if isinstance(self.output, (tuple, list)):
            parts = [self._identity(name, entry, place) for place, entry in enumerate(self.output)]
            return RemovedSeveral(parts, type(self.output))
        return self._identity(name, self.output, None)

    def _identity(self, name: str, output: Any, place: int | None) -> Removed:
        """What replaces one of its outputs."""
        given = self.inputs[0] if self.inputs else None
        if isinstance(output, Tensor) and isinstance(given, Tensor):
            square = output.dim() in (2, 3) and output.shape[-1] == output.shape[-2]
            if square and self._is_a_transform(name, given, output, place):
                return Removed(output.shape[-1], batched=output.dim() == 3)
            if output.shape == given.shape:
                return Removed()
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        which = "" if place is None else f" as output {place}"
        raise InputError(
            f"remove: '{name}' returns {shape}{which}, which is neither a (B, k, k) transform nor of its input's shape: "
            "no identity fits"
        )

    def _is_a_transform(self, name: str, given: Tensor, output: Tensor, place: int | None) -> bool:
        """Whether a square output is a transform: neither the number of the points changes its size nor their order its values.

        Raises `InputError` where an output of its input's shape neither ignores nor follows the order along an axis.
        """
        size = output.shape[-1]
        if output.shape != given.shape:
            return not any(
                given.shape[axis] == size and self._grows(given, axis, size, place) for axis in range(1, given.dim())
            )
        scale, follows = output.abs().max(), False
        for axis in range(1, given.dim()):
            with torch.no_grad():
                again = self.module(given.flip(axis), *self.inputs[1:], **self.kwargs)
            again = again if place is None else again[place]
            if (again - output).abs().max() <= 1e-4 * scale:
                return True
            follows |= bool((again - output.flip(axis)).abs().max() <= 1e-4 * scale)
        if not follows:
            raise InputError(
                f"remove: '{name}' returns {tuple(output.shape)}, the shape of its input: a transform, or its input changed? "
                "Give an example with another number of points"
            )
        return False

    def _grows(self, given: Tensor, axis: int, size: int, place: int | None) -> bool:
        """Whether an output is as large as its input is along an axis, as attention weights are along the points."""
        try:
            with torch.no_grad():
                again = self.module(given.narrow(axis, 0, size - 1), *self.inputs[1:], **self.kwargs)
        except Exception:  # an axis of channels
            return False
        again = again if place is None else again[place]
        return isinstance(again, Tensor) and again.shape[-1] != size
