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


def _channel_dropout(name: str, unbatched: int | None) -> None:
    def apply(x: Q, p: float = 0.5, training: bool = True, **named: Any) -> Q:
        """Whole channels of quaternions are dropped."""
        if not training or p == 0:
            return x.same(x.components)
        kept = 1 if x.rank == unbatched else 2
        mask = x.components.new_ones(*x.components.shape[1 : kept + 1], *[1] * (x.rank - kept))
        return x.same(x.components * F.dropout(mask, p, training=True))

    paper.rule(name, row="Dropout")(apply)


for _name, _unbatched in (("dropout1d", 2), ("dropout2d", None), ("dropout3d", 4), ("feature_dropout", None)):
    _channel_dropout(_name, _unbatched)  # (C, *) without a batch axis, where torch takes that
