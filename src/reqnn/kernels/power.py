"""E‖f‖², the one statistic of the quaternion batch-norm, and where its derivative goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor


def alone(sums: Tensor) -> Tensor:
    """Sums over processes, where there is one."""
    return sums


@dataclass(frozen=True, eq=False)
class Power:
    """E‖x‖² of each channel, (C,), that a batch-norm divides by: s = 1/√(E‖x‖² + ε).

    Attributes:
        mean: the statistic; while training that of a batch, otherwise the running one.
        eps: ε.
        count: if it is the mean over the very rows that it is applied to, the number of rows; its derivative then goes
            to these rows. 0 if it comes from elsewhere.
        reduce: adds up a tensor over all processes that share the statistic; `count` is of all of them.
    """

    mean: Tensor
    eps: float
    count: float = 0.0
    reduce: Callable[[Tensor], Tensor] = alone

    def with_graph(self) -> Power:
        """The same where autograd itself takes the derivative of the mean back to the rows that it is of."""
        return replace(self, count=0.0)

    def scale(self) -> Tensor:
        """s, (C,) float64."""
        return (self.mean.double() + self.eps).rsqrt()

    def pull(self, slopes: Tensor) -> Tensor:
        """The derivative by the mean, from that by s: ∂s/∂mean = −s³/2. Shapes: (C,) → (C,) float64."""
        return -0.5 * self.scale() ** 3 * slopes.double()

    def share(self, of_mean: Tensor) -> Tensor:
        """What multiplies each row x in its own derivative: ∂mean/∂x = 2·x / count."""
        return self.reduce(of_mean) * (2 / self.count)
