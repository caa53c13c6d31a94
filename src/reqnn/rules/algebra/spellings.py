"""Other spellings of what has a rule: relatives, reflected operators and functional forms, made of operations that have one."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from reqnn.rules.algebra.arithmetic import add, inner
from reqnn.rules.algebra.base import algebra, sizes
from reqnn.rules.algebra.indexing import getitem, select
from reqnn.rules.algebra.joining import cat, split, tensor_split
from reqnn.rules.algebra.products import matmul
from reqnn.rules.algebra.reduction import norm, var, var_mean
from reqnn.rules.algebra.scatter import scatter_reduce
from reqnn.rules.algebra.shape import flip, transpose
from reqnn.tensor import safe_sqrt

Spellings = dict[str, Callable[..., Any]]

_LINEAR: Spellings = {
    "sub": lambda a, b, *, alpha=1: add(a, b, alpha=-alpha),
    "rsub": lambda a, b, *, alpha=1: add(b, a, alpha=-alpha),
    "neg": lambda x: x.same(-x.components),
    "positive": lambda x: x,
    "addcmul": lambda x, a, b, *, value=1: x + value * (a * b),
    "addcdiv": lambda x, a, b, *, value=1: x + value * (a / b),
    "lerp": lambda start, end, weight: start + (end - start) * weight,
}

_ALGEBRA: Spellings = {
    "rmatmul": lambda a, b: matmul(b, a),
    "chain_matmul": lambda *matrices: reduce(torch.matmul, sizes(matrices)),
    "linalg_multi_dot": lambda matrices: reduce(torch.matmul, matrices),
    "linalg_vecdot": lambda a, b, *, dim=-1: inner(a, b).sum(dim),
    "normalize": lambda x, p=2.0, dim=1, eps=1e-12: x / norm(x, p, dim, keepdim=True).clamp(min=eps),
    "dist": lambda a, b, p=2.0: norm(a - b, p),
    "pdist": lambda x, p=2.0: norm(torch.sub(*(getitem(x, row) for row in torch.triu_indices(len(x), len(x), 1))), p, -1),
}

_SPREADS: Spellings = {
    "std": lambda x, *args, **named: safe_sqrt(var(x, *args, **named)),
    "std_mean": lambda x, *args, **named: (safe_sqrt((found := var_mean(x, *args, **named))[0]), found[1]),
}

_STRUCTURE: Spellings = {
    "t": lambda x: x.same(x.components) if x.rank < 2 else transpose(x, -2, -1),
    "adjoint": lambda x: transpose(x, -2, -1),
    "fliplr": lambda x: flip(x, 1),
    "flipud": lambda x: flip(x, 0),
    "unbind": lambda x, dim=0: tuple(select(x, dim, i) for i in range(x.user_shape[dim])),
    "__iter__": lambda x: iter([select(x, 0, i) for i in range(x.user_shape[0])]),
    "stack": lambda tensors, dim=0: cat([x.unsqueeze(dim) for x in tensors], dim),
    "hstack": lambda tensors: cat(tensors, 0 if tensors[0].dim() < 2 else 1),
    "vstack": lambda tensors: cat([x.unsqueeze(0) if x.dim() == 1 else x for x in tensors], 0),
    "row_stack": lambda tensors: torch.vstack(tensors),
    "column_stack": lambda tensors: cat([x.unsqueeze(1) if x.dim() == 1 else x for x in tensors], 1),
    "dstack": lambda tensors: cat([x.unsqueeze(2) if x.dim() == 2 else x for x in tensors], 2),
    "chunk": lambda x, chunks, dim=0: split(x, -(-x.user_shape[dim] // chunks), dim),
    "unsafe_chunk": lambda x, chunks, dim=0: split(x, -(-x.user_shape[dim] // chunks), dim),
    "vsplit": lambda x, indices_or_sections: tensor_split(x, indices_or_sections, 0),
    "hsplit": lambda x, indices_or_sections: tensor_split(x, indices_or_sections, 1),
    "dsplit": lambda x, indices_or_sections: tensor_split(x, indices_or_sections, 2),
    "scatter_add": lambda x, dim, index, src: scatter_reduce(x, dim, index, src, "sum"),
}

for _table, _kind in (
    (_LINEAR, {"row": "algebra", "linear": True}),
    (_ALGEBRA, {"row": "algebra"}),
    (_SPREADS, {"row": "algebra", "extension": True}),
    (_STRUCTURE, {"row": "structure", "linear": True}),
):
    for _name, _function in _table.items():
        algebra.rule(_name, **_kind)(_function)
