"""What a batch-norm has measured and not yet applied, so that the layers after it are one pass over memory with it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

from torch import Tensor

from reqnn.kernels import rows
from reqnn.kernels.power import Power
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

    @property
    def sources(self) -> tuple[weakref.WeakValueDictionary[int, QuaternionTensor], ...]:
        """Where those who wait for the memory are noted."""
        return (self.waiting,)

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


def defers(x: QuaternionTensor) -> bool:
    """Whether a scale may be left to the next layer: where loops do both in one pass."""
    return x.context.plan is None and rows.serves(x.components)


def scaled(x: QuaternionTensor, power: Power, c: float = 0.0) -> QuaternionTensor:
    """f / √(E‖f‖² + ε) for each channel, then the ReLU rule if c > 0; left to the next layer where loops can run.

    Shapes:
        x: (B, C) or (B, C, *)
    """
    if defers(x):
        return x.defer(Deferred(x.components, power, x.waiting, c))
    scale = (power.mean + power.eps).rsqrt().to(x.components.dtype)
    return x.same(rows.from_rows(rows.relu_reference(x.components.movedim((0, 2), (-2, -1)), scale, c), 1))
