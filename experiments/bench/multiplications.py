"""Multiplications of matrix products, counted by torch as they are executed: below them no implementation can be.

Element-wise work is not counted, nor are sums over winners in compiled loops. The same network on ordinary tensors
(`fused=False`) and on gathered ones does different products: the count is of what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def multiplications(call: Callable[[], Any]) -> int:
    """How many multiplications the matrix products of a call take, its gradients included."""
    known = {torch.ops.mkldnn._linear_pointwise: _linear}
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        call()
    return int(counter.get_total_flops()) // 2


def _linear(rows: Sequence[int], weight: Sequence[int], *others: Any, out_shape: Sequence[int], **named: Any) -> int:
    """Of x·Wᵀ by oneDNN; two for each multiplication and addition."""
    return 2 * torch.Size(out_shape).numel() * weight[-1]
