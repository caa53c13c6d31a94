"""Other spellings of what has a rule: old signatures, relatives and functional forms of indexing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import algebra, refuse_over_vectors, require_quaternion, structural
from reqnn.rules.algebra.indexing import getitem, scatter_add, setitem
from reqnn.rules.algebra.joining import cat, tensor_split, vstack
from reqnn.rules.algebra.products import matmul
from reqnn.rules.algebra.reduction import mean, norm, total
from reqnn.tensor import QuaternionTensor as Q

structural("row_stack")(vstack)
algebra.rule("nansum", row="algebra")(total)
algebra.rule("nanmean", row="algebra")(mean)


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


@algebra.rule("chain_matmul", "linalg_multi_dot", row="algebra")
def chain_matmul(*matrices: Any, **named: Any) -> Any:
    """A product of several matrices, from the left."""
    given = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)) else matrices
    return reduce(torch.matmul, given)


@algebra.rule("addmv", row="algebra")
def addmv(x: Any, matrix: Any, vector: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """β·x + α·A·v."""
    product = matmul(matrix, vector) * alpha
    return product if beta == 0 else (x if beta == 1 else x * beta) + product


@structural("embedding")
def embedding(
    first: Any,
    second: Any,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    *rest: Any,
    **named: Any,
) -> Q:
    """Rows of a table of features, by index: a gather. ``F.embedding`` takes the index first, ``torch.embedding`` the table."""
    table, index = (second, first) if isinstance(second, Q) else (first, second)
    if not isinstance(table, Q) or not isinstance(index, Tensor) or isinstance(index, Q) or index.is_floating_point():
        raise NoRuleError("embedding reads rows of a table of features by an integer tensor")
    if max_norm is not None or any(rest) or any(named.values()) or padding_idx not in (None, -1):
        raise NoRuleError("embedding of features with padding_idx, max_norm or scale_grad_by_freq; without them it is a gather")
    return getitem(table, index)


@structural("index_put")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Q:
    """``x[indices] = values``, out of place."""
    if accumulate:
        raise NoRuleError("index_put with accumulate=True; use index_add or scatter_add")
    out: Q = require_quaternion(x, "the target of index_put").clone()  # type: ignore[assignment]
    setitem(out, tuple(slice(None) if index is None else index for index in indices), values)
    return out


@structural("index_fill")
def index_fill(x: Q, dim: int, index: Tensor, value: Any) -> Q:
    """Zeros at indexed places."""
    out: Q = x.clone()  # type: ignore[assignment]
    setitem(out, (slice(None),) * x.dims(dim)[0] + (index,), value)
    return out


@structural("scatter_reduce")
def scatter_reduce(x: Any, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True) -> Q:
    """Sums and means of quaternions that go to the same place."""
    x, src = require_quaternion(x, "the target of scatter_reduce"), require_quaternion(src, "the source of scatter_reduce")
    if reduce not in ("sum", "mean"):
        raise NoRuleError(f"scatter_reduce by {reduce!r}; sum and mean have a rule")
    start = x if include_self else x.same(torch.zeros_like(x.components))
    summed = scatter_add(start, dim, index, src)
    if reduce == "sum":
        return summed
    refuse_over_vectors(x, x.dims(dim), "scatter_reduce")
    ones = torch.ones(index.shape, dtype=x.components.dtype, device=index.device)
    counts = torch.full(x.user_shape, float(include_self), dtype=ones.dtype, device=index.device)
    counts = counts.scatter_add(x.dims(dim)[0], index, ones)
    return summed / counts.clamp(min=1)


@algebra.rule("pdist", row="algebra")
def pdist(x: Q, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows: invariant."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return norm(getitem(x, first) - getitem(x, second), p, -1)
