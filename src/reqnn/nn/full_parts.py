"""Full quaternions whose two parts are kept apart, and joined only where somebody wants them in one tensor."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reqnn.kernels.rows import from_rows
from reqnn.tensor import QuaternionTensor


@dataclass(frozen=True, eq=False)
class Parts:
    """s + v, not joined: layers that follow one another need no joined tensor, forth or back. See `QuaternionTensor.defer`.

    Attributes:
        real: s (*shape).
        imaginary: v (3, *shape).
        axis: the logical axis of the channels, which lie side by side in memory.
        waiting: who else waits for these numbers; before they are overwritten in place, all take their values.
        means: of the imaginary part, for all poolings that ask for them.
    """

    real: Tensor
    imaginary: Tensor
    axis: int
    waiting: weakref.WeakValueDictionary[int, QuaternionTensor]
    means: dict[tuple[int, bool], Tensor] = field(default_factory=dict)

    def mean_from(self, first: int) -> Tensor:
        """The mean of v over the logical axes from `first` on, which come behind the channels: (3, *, 1, …)."""
        key = (first, torch.is_grad_enabled())
        if key not in self.means:
            rows = self.imaginary.movedim((0, self.axis + 1), (-2, -1))  # so that the gradient has the order of the rows
            dims = tuple(range(first - 1, rows.dim() - 2))
            total = rows.sum(dims, keepdim=True)  # its gradient is a view, that of a mean is not
            self.means[key] = from_rows(total / (rows.numel() // max(total.numel(), 1)), self.axis)
        return self.means[key]

    @property
    def raw(self) -> Tensor:
        """Something with the shape of the components, (4, *shape), that takes no memory."""
        return self.real.expand(4, *self.real.shape)

    @property
    def sources(self) -> tuple[weakref.WeakValueDictionary[int, QuaternionTensor], ...]:
        """Where those who wait for the memory are noted."""
        return (self.waiting,)

    def components(self) -> Tensor:
        """The joined parts, (4, *shape), rows in memory (`reqnn.kernels.rows`)."""
        if self.real.dim() == 0:
            return torch.cat([self.real[None], self.imaginary])
        rows = [self.real.movedim(self.axis, -1).unsqueeze(-2), self.imaginary.movedim((0, self.axis + 1), (-2, -1))]
        return from_rows(torch.cat(rows, dim=-2), self.axis)

    def squared_norm(self) -> Tensor:
        """‖q‖², (*shape)."""
        return self.real.square() + self.imaginary.square().sum(0)


def parts(x: QuaternionTensor) -> tuple[Tensor | None, Tensor]:
    """s (*shape), None where the quaternions are pure, and v (3, *shape)."""
    kept = x.still_deferred
    if isinstance(kept, Parts):
        return kept.real, kept.imaginary
    if x.components.shape[0] == 3:
        return None, x.components
    real, imaginary = x.components.split([1, 3])  # cut once, so that their gradients are joined once
    return real[0], imaginary


def join(x: QuaternionTensor, real: Tensor, imaginary: Tensor, axis: int) -> QuaternionTensor:
    """s + v in the context of x, whose memory they may share; channels on logical axis `axis`.

    Shapes: real (*shape), imaginary (3, *shape)
    """
    kind, before = torch.promote_types(real.dtype, imaginary.dtype), x.still_deferred  # autocast may have split them
    real, imaginary = real.to(kind), imaginary.to(kind)
    kept = Parts(real, imaginary, axis, before.waiting if isinstance(before, Parts) else x.waiting)
    out = x.like(kept.raw).wait_for(kept)
    out.channel_axis = axis
    return out
