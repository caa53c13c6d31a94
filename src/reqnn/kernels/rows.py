"""Batch-norm, ReLU and max-pooling in one pass over memory each, with their derivatives by hand; Quaternion2Real.

Element-wise passes over memory, not matrix products, are what a revised network spends its time on. So a batch-norm only
measures its statistics; the scale s = 1/√(E‖x‖² + ε) that follows from them is applied together with what comes next:

    relu      u·‖u‖ / max{‖u‖, c} with u = s·x
    to_real   ‖relu(x)‖²
    longest   both grow strictly with ‖x‖ in each channel: the longest x is the longest of relu(x), so pooling comes first

Rows are places: x (P, 3, C), the three parts of all channels of one place side by side. Each function has a plain-torch twin,
its oracle and the path where numba is missing or a gradient of a gradient is wanted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reqnn.kernels import edge_loops, row_loops, tied
from reqnn.kernels.by_hand import by_hand
from reqnn.kernels.power import Power
from reqnn.kernels.run import loops_run_on, run
from reqnn.memory import fresh


def safe_sqrt(square: Tensor) -> Tensor:
    """√x with gradient 0, not infinity, at x = 0."""
    positive = square > 0
    return torch.where(positive, square, 1).sqrt() * positive


BLOCK = 128  # rows that are summed up before sums are added in float64


def serves(x: Tensor) -> bool:
    """Whether the loops can run on these components (3, *)."""
    return x.shape[0] == 3 and x.numel() > 0 and loops_run_on(x)


def to_rows(x: Tensor, channels: int) -> Tensor:
    """Components (3, *) with channels on logical axis `channels`, as rows (*, 3, C); no copy where memory is so already."""
    return x.movedim((0, channels + 1), (-2, -1)).contiguous()


def from_rows(rows: Tensor, channels: int) -> Tensor:
    """The inverse of `to_rows`, a view."""
    return rows.movedim((-2, -1), (0, channels + 1))


def block_sums(rows: Tensor) -> Tensor:
    """Where the loops leave sums over places (P, 3, C), a block of rows each: (blocks, C) float64, for ``.sum(0)``."""
    return torch.empty(-(-rows.shape[0] // BLOCK), rows.shape[2], dtype=torch.float64)


def total_power(rows: Tensor) -> Tensor:
    """Σ ‖x‖² of each channel over all places: (*, 3, C) → (C,) float64, without a gradient."""
    flat = rows.detach().flatten(0, -3)
    sums = block_sums(flat)
    run(edge_loops.power, flat, flat[:0], *_blocks(flat), flat.new_ones(len(flat)), sums)
    return sums.sum(0)


def _blocks(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that are stored as the groups that loops on edges want: neighbours, which nobody reads, and the first of each."""
    start = torch.arange(0, len(rows) + BLOCK, BLOCK)
    start[-1] = len(rows)
    return torch.empty(0, dtype=torch.int32), start


def relu_reference(x: Tensor, scale: Tensor, c: float) -> Tensor:
    """`relu` in plain torch."""
    x = x * scale
    if c <= 0:
        return x
    norm = safe_sqrt(x.square().sum(-2, keepdim=True))
    return x * (norm / norm.clamp(min=c))


def to_real_reference(x: Tensor, scale: Tensor, c: float) -> Tensor:
    """`to_real` in plain torch."""
    return relu_reference(x, scale, c).square().sum(-2).movedim(-1, 1)


def scaled_relu(x: Tensor, scale: Tensor, c: float) -> Tensor:
    """`relu` for a scale that is known, without gradients."""
    out, rows = fresh(x, *x.shape), x.flatten(0, -3)
    neighbour, start = _blocks(rows)
    run(edge_loops.relu, rows, rows[:0], neighbour, start, 0, len(start) - 1, scale, c, out.flatten(0, -3))
    return out


def _forward(x: Tensor, mean: Tensor, power: Power, c: float) -> Tensor:
    return scaled_relu(x, power.scale().to(x.dtype), c)


def _backward(gradient: Tensor, x: Tensor, mean: Tensor, power: Power, c: float, own: bool) -> tuple:
    rows, scale, out = x.flatten(0, -3), power.scale().to(x.dtype), gradient if own else fresh(x, *x.shape)
    gradient = gradient.flatten(0, -3)
    extra, returned = torch.zeros_like(scale), None
    if power.count or mean.requires_grad:
        sums = block_sums(rows)
        run(row_loops.slopes, rows, scale, c, gradient, sums)
        of_mean = power.pull(sums.sum(0))
        if power.count:
            extra = power.share(of_mean).to(x.dtype)
        else:
            returned = of_mean.to(mean.dtype)
    run(row_loops.backward, rows, scale, c, gradient, extra, out.flatten(0, -3))
    return out, returned


def _mean(square: Tensor, mean: Tensor, power: Power) -> Tensor:
    """The statistic with its derivative in plain torch, from ‖x‖² (*, C)."""
    return power.reduce(square.flatten(0, -2).sum(0)) / power.count if power.count else mean


def _twin(x: Tensor, mean: Tensor, power: Power, c: float) -> Tensor:
    return relu_reference(x, (_mean(x.square().sum(-2), mean, power) + power.eps).rsqrt().to(x.dtype), c)


def relu(x: Tensor, power: Power, c: float) -> Tensor:
    """ReLU(s·x); c = 0 leaves the ReLU out. Shapes: x (*, 3, C) → (*, 3, C)."""
    out: Tensor = by_hand(_forward, _backward, (x, power.mean), power, c, twin=_twin, reuses=True)
    return out


def to_real(x: Tensor, power: Power, c: float) -> Tensor:
    """‖ReLU(s·x)‖², channels first: r² for r = s·‖x‖ ≥ c, else r⁴/c². Shapes: x (B, *, 3, C) → (B, C, *)"""
    square = x.square().sum(-2)
    mean = _mean(square, power.mean, power) if torch.is_grad_enabled() else power.mean
    out = square / (mean + power.eps).to(x.dtype)
    if c > 0:
        out = torch.where(out >= c * c, out, out * (out / (c * c)))
    return out.movedim(-1, 1).contiguous()


def _longest(x: Tensor, mean: Tensor, axis: int, power: Power) -> tuple[Tensor, Tensor, Tensor]:
    size, inner = x.shape[axis], x.shape[axis + 1 : -2].numel()
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    out, winner = x.new_empty(shape), torch.empty(*shape[:-2], shape[-1], dtype=torch.int32)
    run(row_loops.longest, x.flatten(0, -3), inner, size, winner.flatten(0, -2), out.flatten(0, -3))
    return out, mean.clone(), winner


def _longest_back(
    gradient: Tensor, of_mean: Tensor, x: Tensor, mean: Tensor, winner: Tensor, axis: int, power: Power
) -> tuple[Tensor, Tensor | None]:
    extra = power.share(of_mean).to(x.dtype) if power.count else torch.zeros(x.shape[-1], dtype=x.dtype)
    size, inner, out = x.shape[axis], x.shape[axis + 1 : -2].numel(), fresh(x, *x.shape)
    rows = (x.flatten(0, -3), inner, size, winner.flatten(0, -2), gradient.flatten(0, -3), extra)
    run(row_loops.longest_backward, *rows, out.flatten(0, -3))
    return out, None if power.count else of_mean


def _longest_twin(x: Tensor, mean: Tensor, winner: Tensor, axis: int, power: Power) -> tuple[Tensor, Tensor]:
    return tied.longest(x.movedim(-2, 0), axis)[0].movedim(0, -2), _mean(x.square().sum(-2), mean, power)


def longest(x: Tensor, axis: int, power: Power) -> tuple[Tensor, Power, Tensor]:
    """The longest row along an axis in each channel, the power of all rows with its derivative, the index of the winner.

    Shapes:
        x: (*, K, *, 3, C), K on `axis` → (*, *, 3, C), power, (*, *, C) int32
    """
    out, mean, winner = by_hand(_longest, _longest_back, (x, power.mean), axis, power, twin=_longest_twin)
    return out, Power(mean, power.eps), tied.first(winner)
