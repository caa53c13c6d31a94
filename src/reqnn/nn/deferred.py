"""What a batch-norm has measured and not yet applied, so that the layers after it are one pass over memory with it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

from torch import Tensor

from reqnn.nn import rows
from reqnn.nn.power import Power
from reqnn.tensor import QuaternionTensor


@dataclass(frozen=True, eq=False)
class Deferred:
    """Features that are still to be divided by √(power + ε) and, where c > 0, to go through the ReLU rule.

    Attributes:
        raw: components (3, B, C, *) as the batch-norm was given them.
        power: E‖f‖² of each channel.
        c: the constant of the ReLU rule, 0 before it.
        waiting: who else waits for these numbers; before they are overwritten in place, all take their values.
    """

    raw: Tensor
    power: Power
    waiting: weakref.WeakValueDictionary[int, QuaternionTensor]
    c: float = 0.0

    def components(self) -> Tensor:
        """The values, (3, B, C, *)."""
        return rows.from_rows(rows.relu(rows.to_rows(self.raw, 1), self.power, self.c), 1)

    def squared_norm(self) -> Tensor:
        """Their squared norms, (B, C, *)."""
        return rows.to_real(rows.to_rows(self.raw, 1), self.power, self.c)

    def longest(self, dim: int, keepdim: bool) -> tuple[Deferred, Tensor]:
        """The longest along a logical axis behind the channels, still deferred, and its index."""
        out, power, winner = rows.longest(rows.to_rows(self.raw, 1), dim - 1, self.power)
        raw, index = rows.from_rows(out, 1), winner.movedim(-1, 1).long()
        if keepdim:
            raw, index = raw.unsqueeze(dim + 1), index.unsqueeze(dim)
        fresh: weakref.WeakValueDictionary[int, QuaternionTensor] = weakref.WeakValueDictionary()
        return Deferred(raw, power, fresh, self.c), index

    def with_relu(self, c: float) -> Deferred:
        """The same, to go through the ReLU rule as well."""
        return replace(self, c=c)
