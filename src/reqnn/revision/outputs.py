"""The outputs of a revised network as its original gives them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.tensor import QuaternionTensor
from reqnn.tensor.markers import RemovedBias, RemovedTransform, ScalarTensor


def to_outputs(tree: Any) -> Any:
    """Outputs as the original gives them: vectors as coordinates, other quaternions by their squared norms."""
    if isinstance(tree, QuaternionTensor):
        if tree.axis is not None and set(tree.vectors) <= {"v", "l", "s"}:
            return tree.as_real()
        return tree.squared_norm()
    if isinstance(tree, (RemovedTransform, RemovedBias, ScalarTensor)):
        return tree.as_subclass(Tensor)
    if isinstance(tree, dict):
        return type(tree)((key, to_outputs(value)) for key, value in tree.items())
    if hasattr(tree, "_fields"):
        return type(tree)(*(to_outputs(value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(to_outputs(value) for value in tree)
    return tree
