"""Table 1, "Dropout": whole quaternions are dropped, all parts at once (paper, section 3.3)."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q

_UNBATCHED = {"dropout1d": 2, "dropout3d": 4}  # rank of (C, *) without a batch axis, where torch takes that


@paper.each("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", row="Dropout")
def dropout(name: str, x: Q, p: float = 0.5, training: bool = True, **named: Any) -> Q:
    """Each quaternion, or each channel of them, is 0 with probability p; the others grow by 1/(1 − p)."""
    if not training or p == 0:
        return x.same(x.components)
    kept = x.rank if name == "dropout" else 1 if x.rank == _UNBATCHED.get(name) else 2
    mask = x.components.new_ones(*x.components.shape[1 : kept + 1], *[1] * (x.rank - kept))
    return x.same(x.components * F.dropout(mask, p, training=True))
