"""The outputs of a revised network as its original gives them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reqnn.tensor import QuaternionTensor
from reqnn.tensor.markers import RemovedBias, RemovedTransform, ScalarTensor
from reqnn.tensor.nested import map_leaves


def to_outputs(tree: Any) -> Any:
    """Outputs as the original gives them: vectors as coordinates, other quaternions by their squared norms."""
    return map_leaves(_to_output, tree)


def _to_output(leaf: Any) -> Any:
    if isinstance(leaf, QuaternionTensor):
        if leaf.axis is not None and set(leaf.vectors) <= {"v", "l", "s"}:
            return leaf.as_real()
        return leaf.squared_norm()
    if isinstance(leaf, (RemovedTransform, RemovedBias, ScalarTensor)):
        return leaf.as_subclass(Tensor)
    return leaf
