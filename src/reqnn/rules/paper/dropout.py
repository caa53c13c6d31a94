"""Table 1, "Dropout": whole quaternions are dropped, all parts at once (paper, section 3.3)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q


@paper.rule("dropout", row="Dropout")
def dropout(x: Q, p: float = 0.5, training: bool = True, **named: Any) -> Q:
    """Each quaternion is 0 with probability p; the others grow by 1/(1 − p)."""
    if not training or p == 0:
        return x.same(x.components)
    return x.same(x.components * F.dropout(torch.ones_like(x.components[0]), p, training=True))


@paper.rule("dropout1d", "dropout2d", "dropout3d", "feature_dropout", row="Dropout")
def channel_dropout(x: Q, p: float = 0.5, training: bool = True, **named: Any) -> Q:
    """Whole channels of quaternions are dropped."""
    if not training or p == 0:
        return x.same(x.components)
    mask = x.components.new_ones(*x.components.shape[1:3], *[1] * (x.rank - 2))
    return x.same(x.components * F.dropout(mask, p, training=True))
