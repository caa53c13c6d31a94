"""The longest of several vectors, where some are equally long: their common direction, at their common length.

Candidates whose scores are within eps^⅔ of the best one, relatively, are tied: rounding in the layers before decides which is
best. With the unit vectors û_j = u_j/‖u_j‖ of the tied ones, each counted as often as it occurs,

    m = 1/n Σ_j û_j,    pooled = r·m/‖m‖ with r = 1/n Σ_j ‖u_j‖,    0 if ‖m‖ ≤ 1/64: they cancel

which rotates with them, does not depend on their order, and gives the gradient to all. As it keeps the length, a batch-norm or
ReLU, which rescale vectors by functions of their lengths, may come before or after: a plain mean would not allow that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CANCEL = 1 / 64  # ‖m‖ up to which there is no common direction


def tie_share(x: Tensor) -> float:
    """By how much of the best score a tied one may be below it."""
    return float(torch.finfo(x.dtype).eps ** (2 / 3))


def first(winner: Tensor) -> Tensor:
    """The winners w as loops write them, ~w < 0 where they are tied, without that mark."""
    return winner ^ (winner >> 31)


Add = Callable[[Tensor], Tensor]
"""(n, candidates) → their sums (n, *out)."""


def common_direction(parts: Tensor, tied: Tensor, add: Add = lambda x: x.sum(-1)) -> Tensor:
    """r·m/‖m‖ of the tied candidates, by default over the last axis. Shapes: parts (n, *, K), tied (*, K) → (n, *)"""
    square = parts.square().sum(0, keepdim=True)
    counted = tied & (square > 0)
    length = torch.where(counted, square, 1).sqrt()
    count, total = add(tied[None].to(parts.dtype)).clamp(min=1), add(torch.where(counted, parts / length, 0))
    found = total.square().sum(0, keepdim=True)
    cancels = found <= (CANCEL * count) ** 2
    return total * (add(torch.where(counted, length, 0)) / count * torch.where(cancels, 1, found).rsqrt() * ~cancels)


def _branches(x: Tensor) -> bool:
    """Whether code may look at values: not in a graph, nor on a device that would have to be waited for."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def settle(values: Tensor, best: Tensor, parts: Tensor, scores: Tensor, lay: Callable[[Tensor, float], Tensor]) -> Tensor:
    """The winners, with the common direction in place of those that are tied; of real numbers only the gradient is shared.

    Args:
        values: of the winners, (n, *out).
        best: their scores, (*out).
        parts: of all candidates, (n, *).
        scores: of all candidates, (*), without a gradient.
        lay: puts the candidates of each winner on a last axis, and a number where there is none: (n, *) → (n, *out, K).
    """
    if len(parts) == 1 and not parts.requires_grad:
        return values
    tied = lay(scores[None], -torch.inf)[0] >= (best - tie_share(best) * best.abs()).unsqueeze(-1)
    if not _branches(values):
        settled = torch.where(tied.sum(-1) > 1, common_direction(lay(parts, 0.0), tied), values)
    elif int(torch.count_nonzero(tied)) <= best.numel():
        return values
    else:
        where: tuple[Any, ...] = (tied.sum(-1) > 1).nonzero(as_tuple=True)
        settled = values.clone()
        settled[(slice(None), *where)] = common_direction(lay(parts, 0.0)[(slice(None), *where)], tied[where])
    return settled if len(parts) > 1 else values.detach() + (settled - settled.detach())


def taken(parts: Tensor, index: Tensor, dim: int) -> Tensor:
    """The components at an index along an axis. Shapes: (n, *shape), (*shape without dim) → (n, *shape without dim)"""
    index = index.unsqueeze(dim)
    return parts.gather(dim + 1, index.expand(parts.shape[0], *index.shape)).squeeze(dim + 1)


def largest(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest number along an axis, and the first index of one as large. Shapes: (*shape) → (*shape without dim), int64"""
    values, index = longest(x[None], dim, x.detach())
    return values[0], index


def longest(parts: Tensor, dim: int, scores: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The longest along an axis, or that of the largest score, and the first index of one as long.

    Shapes: parts (n, *shape), scores (*shape) → (n, *shape without dim), (*shape without dim) int64
    """
    scores = parts.detach().square().sum(0) if scores is None else scores
    best, index = scores.max(dim)
    return settle(taken(parts, index, dim), best, parts, scores, lambda x, _: x.movedim(dim + 1, -1)), index


def scattered(parts: Tensor, scores: Tensor, best: Tensor, dim: int, index: Tensor) -> Tensor:
    """The winners of those that go to the same place along an axis, 0 where none goes.

    Shapes: parts (n, *shape), scores and index (*shape), best (*places) → (n, *places)
    """
    tied = scores >= (best - tie_share(best) * best.abs()).gather(dim, index)

    def add(x: Tensor) -> Tensor:
        at = index.expand(x.shape[0], *index.shape)
        return x.new_zeros(x.shape[0], *best.shape).scatter_add(dim + 1, at, x)

    several = add(tied[None].to(parts.dtype)) > 1
    values = add(torch.where(tied, parts, 0))
    if _branches(values) and not bool(several.any()):
        return values
    return torch.where(several, common_direction(parts, tied, add), values)
