"""What replaces a removed submodule: its input, or the identity of a (B, k, k) transform; by what the submodule computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.nn.removed import Removed


@dataclass(frozen=True)
class Call:
    """One call of a submodule in a pass of the original: what it took, and what it returned."""

    module: nn.Module
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any

    def identity(self, name: str) -> Removed:
        """The module that takes its place."""
        given, output = self.inputs[0] if self.inputs else None, _first(self.output)
        if isinstance(output, Tensor) and isinstance(given, Tensor):
            square = output.dim() in (2, 3) and output.shape[-1] == output.shape[-2]
            if square and (output.shape != given.shape or self._ignores_the_order(name, given, output)):
                return Removed(output.shape[-1], batched=output.dim() == 3)
            if output.shape == given.shape:
                return Removed()
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            f"remove: '{name}' returns {shape}, which is neither a (B, k, k) transform nor of its input's shape: "
            "no identity fits"
        )

    def _ignores_the_order(self, name: str, given: Tensor, output: Tensor) -> bool:
        """Whether a square output of its input's shape is a transform: the order of the points does not change that.

        Raises `InputError` where it neither ignores nor follows the order along an axis.
        """
        scale, follows = output.abs().max(), False
        for axis in range(1, given.dim()):
            with torch.no_grad():
                again = _first(self.module(given.flip(axis), *self.inputs[1:], **self.kwargs))
            if (again - output).abs().max() <= 1e-4 * scale:
                return True
            follows |= bool((again - output.flip(axis)).abs().max() <= 1e-4 * scale)
        if not follows:
            raise InputError(
                f"remove: '{name}' returns {tuple(output.shape)}, the shape of its input: a transform, or its input changed? "
                "Give an example with another number of points"
            )
        return False


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, (tuple, list)) else output
