"""Batch-norm, ReLU, Quaternion2Real and max-pooling in one pass over memory each, with their derivatives by hand.

Element-wise passes over memory, not matrix products, are what a revised network spends its time on. So a batch-norm only
measures its statistics; the scale s = 1/√(E‖x‖² + ε) that follows from them is applied together with what comes next:

    relu      u·‖u‖ / max{‖u‖, c} with u = s·x
    to_real   ‖relu(x)‖²
    longest   both grow strictly with ‖x‖ in each channel: the longest x is the longest of relu(x), so pooling comes first

Rows are places: x (P, 3, C), the three parts of all channels of one place side by side. Each function has a plain-torch twin,
its oracle and the path where numba is missing or a gradient of a gradient is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import row_loops
from reqnn.kernels.compile import Loop
from reqnn.kernels.power import Power
from reqnn.kernels.run import loops_run_on, run


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
    run(row_loops.power, flat, sums)
    return sums.sum(0)


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


class _Scaled(torch.autograd.Function):
    """What `relu` and `to_real` share: one pass forward; backward a sum over places, then one pass."""

    @staticmethod
    def run(ctx: Any, x: Tensor, power: Power, c: float, loops: tuple[Loop, ...], out: Tensor, flatten: Callable) -> Tensor:
        ctx.save_for_backward(x, power.mean)
        ctx.power, ctx.c, ctx.loops, ctx.flatten = power, c, loops, flatten
        run(loops[0], x.flatten(0, -3), power.scale().to(x.dtype), c, flatten(out))
        return out

    @staticmethod
    def pull(ctx: Any, gradient: Tensor, reference: Callable[[Tensor, Tensor, float], Tensor]) -> tuple:
        x, mean = ctx.saved_tensors
        power: Power = ctx.power
        if torch.is_grad_enabled():
            return _pull_twice(ctx, x, mean, gradient, reference)
        rows, scale = x.flatten(0, -3), power.scale().to(x.dtype)
        gradient = ctx.flatten(gradient.contiguous())
        extra, returned = torch.zeros_like(scale), None
        if power.count or ctx.needs_input_grad[1]:
            sums = block_sums(rows)
            run(ctx.loops[1], rows, scale, ctx.c, gradient, sums)
            of_mean = power.pull(sums.sum(0))
            if power.count:
                extra = power.share(of_mean).to(x.dtype)
            else:
                returned = of_mean.to(mean.dtype)
        out = torch.empty_like(x)
        run(ctx.loops[2], rows, scale, ctx.c, gradient, extra, out.flatten(0, -3))
        return out, returned, None, None


def _rows_of(x: Tensor) -> Tensor:
    """(*, 3, C) → (P, 3, C)."""
    return x.flatten(0, -3)


def _channels_of(x: Tensor) -> Tensor:
    """(B, C, *) → (B, C, n)."""
    return x.reshape(*x.shape[:2], -1)


def _pull_twice(ctx: Any, x: Tensor, mean: Tensor, gradient: Tensor, reference: Callable) -> tuple:
    """The same in plain torch, which can be differentiated again."""
    power: Power = ctx.power
    with torch.enable_grad():
        if power.count:
            mean = power.reduce(x.square().sum(-2).flatten(0, -2).sum(0)) / power.count
        out = reference(x, (mean + power.eps).rsqrt().to(x.dtype), ctx.c)
        wanted = [x] if power.count or not mean.requires_grad else [x, mean]
        found = torch.autograd.grad(out, wanted, gradient, create_graph=True)
    return found[0], found[1] if len(found) > 1 else None, None, None


class _Relu(_Scaled):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, power: Power, c: float) -> Tensor:
        loops = (row_loops.forward, row_loops.slopes, row_loops.backward)
        return _Scaled.run(ctx, x, power, c, loops, torch.empty_like(x), _rows_of)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple:
        return _Scaled.pull(ctx, gradients[0], relu_reference)


class _ToReal(_Scaled):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, power: Power, c: float) -> Tensor:
        loops = (row_loops.squared_norm, row_loops.squared_norm_slopes, row_loops.squared_norm_backward)
        return _Scaled.run(ctx, x, power, c, loops, x.new_empty(x.shape[0], x.shape[-1], *x.shape[1:-2]), _channels_of)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple:
        return _Scaled.pull(ctx, gradients[0], to_real_reference)


def relu(x: Tensor, power: Power, c: float) -> Tensor:
    """ReLU(s·x); c = 0 leaves the ReLU out. Shapes: x (*, 3, C) → (*, 3, C)."""
    out: Tensor = _Relu.apply(x, power.mean, power, c)
    return out


def to_real(x: Tensor, power: Power, c: float) -> Tensor:
    """‖ReLU(s·x)‖², channels first, as the real layers that follow want them. Shapes: x (B, *, 3, C) → (B, C, *)."""
    out: Tensor = _ToReal.apply(x, power.mean, power, c)
    return out


class _Longest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, mean: Tensor, power: Power) -> tuple[Tensor, Tensor, Tensor]:
        size, inner = x.shape[axis], x.shape[axis + 1 : -2].numel()
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        out = x.new_empty(shape)
        winner = torch.empty(*shape[:-2], shape[-1], dtype=torch.int32)
        run(row_loops.longest, x.flatten(0, -3), inner, size, winner.flatten(0, -2), out.flatten(0, -3))
        ctx.save_for_backward(x, winner)
        ctx.axis, ctx.power = axis, power
        ctx.mark_non_differentiable(winner)
        return out, mean.clone(), winner

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple:
        x, winner = ctx.saved_tensors
        gradient, of_mean = gradients[0], gradients[1]
        returned = None if ctx.power.count else of_mean
        extra = ctx.power.share(of_mean).to(x.dtype) if ctx.power.count else torch.zeros(x.shape[-1], dtype=x.dtype)
        if torch.is_grad_enabled():  # plain torch, which can be differentiated again
            index = winner.long().unsqueeze(-2).expand_as(gradient).unsqueeze(ctx.axis)
            out = (x * extra).scatter_add(ctx.axis, index, gradient.unsqueeze(ctx.axis))
            return out, None, returned, None
        size, inner = x.shape[ctx.axis], x.shape[ctx.axis + 1 : -2].numel()
        out = torch.empty_like(x)
        rows = (x.flatten(0, -3), inner, size, winner.flatten(0, -2), gradient.contiguous().flatten(0, -3), extra)
        run(row_loops.longest_backward, *rows, out.flatten(0, -3))
        return out, None, returned, None


def longest(x: Tensor, axis: int, power: Power) -> tuple[Tensor, Power, Tensor]:
    """The longest row along an axis in each channel, the power of all rows with its derivative, the index of the winner.

    Shapes:
        x: (*, K, *, 3, C), K on `axis` → (*, *, 3, C), power, (*, *, C) int32
    """
    out, mean, winner = _Longest.apply(x, axis, power.mean, power)
    return out, Power(mean, power.eps), winner
