"""Other spellings of what has a rule: old signatures, relatives and functional forms of indexing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from reqnn.rules.algebra.base import rule, structural
from reqnn.rules.algebra.indexing import getitem
from reqnn.rules.algebra.joining import cat, tensor_split, vstack
from reqnn.rules.algebra.products import matmul
from reqnn.rules.algebra.reduction import mean, norm, total
from reqnn.tensor import QuaternionTensor as Q

structural("row_stack")(vstack)
rule("nansum")(total)
rule("nanmean")(mean)


@structural("column_stack")
def column_stack(tensors: Sequence[Tensor]) -> Q:
    """Concatenate along axis 1; vectors are columns."""
    return cat([x.unsqueeze(1) if x.dim() == 1 else x for x in tensors], 1)


@structural("dstack")
def dstack(tensors: Sequence[Tensor]) -> Q:
    """Concatenate along axis 2."""
    return cat([x.unsqueeze(2) if x.dim() == 2 else x for x in tensors], 2)


def _split_along(name: str, dim: int) -> None:
    def apply(x: Q, indices_or_sections: Any) -> tuple[Q, ...]:
        return tensor_split(x, indices_or_sections, dim)

    apply.__doc__ = f"``{name}``: sections along axis {dim}."
    structural(name)(apply)


for _name, _dim in (("vsplit", 0), ("hsplit", 1), ("dsplit", 2)):
    _split_along(_name, _dim)


@rule("chain_matmul", "linalg_multi_dot")
def chain_matmul(*matrices: Any, **named: Any) -> Any:
    """A product of several matrices, from the left."""
    given = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)) else matrices
    return reduce(torch.matmul, given)


@rule("addmv")
def addmv(x: Any, matrix: Any, vector: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """β·x + α·A·v."""
    product = matmul(matrix, vector) * alpha
    return product if beta == 0 else (x if beta == 1 else x * beta) + product


@rule("pdist")
def pdist(x: Q, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows: invariant."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return norm(getitem(x, first) - getitem(x, second), p, -1)
