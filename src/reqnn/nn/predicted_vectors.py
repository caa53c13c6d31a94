"""Layers whose output channels are coordinates: an offset, a reconstruction."""

from __future__ import annotations

from typing import Any

from torch import nn

from reqnn.tensor import QuaternionTensor


def tag_vectors_hook(module: nn.Module, args: tuple, output: Any) -> Any:
    """A forward hook: the output channels of this layer are vectors, three of the user's channels each."""
    if not isinstance(output, QuaternionTensor):
        return output
    axis = output.rank - 1 if isinstance(module, nn.Linear) else 1
    count = output.components.shape[axis + 1]
    tagged = output.like(output.components, axis, "v" if count == 1 else "l" * count)
    tagged.source = output.source
    return tagged


def predicts_vectors(module: nn.Module) -> bool:
    """Whether the output channels of a layer are coordinates."""
    return any(hook is tag_vectors_hook for hook in module._forward_hooks.values())
