"""Products of many rows with one matrix, x·Wᵀ, by the fastest way at hand.

Rows of features that lie side by side in memory are what oneDNN calls a 1×1 convolution, channels last. On CPUs where its
kernels are ahead of the BLAS that torch links, as on AMD's, that is the way to take.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FEWEST_ROWS, FEWEST_CHANNELS = 512, 16  # below, the call costs more than it saves
ENOUGH = 16  # parts of a batch with which torch chooses oneDNN for 1×1 convolutions on a single thread, too


def times(rows: Tensor, weight: Tensor) -> Tensor:
    """x·Wᵀ for every row. Shapes: rows (*, C), weight (O, C) → (*, O)."""
    if not _convolution_serves(rows, weight):
        return F.linear(rows, weight)
    out: Tensor = _Times.apply(rows, weight) if torch.is_grad_enabled() else _convolve(rows, weight)
    return out


class _Times(torch.autograd.Function):
    """The gradient of x is such a product too; that of W, a sum over all rows, is not."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _convolve(rows, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0]
        of_rows = times(gradient.contiguous(), weight.T) if ctx.needs_input_grad[0] else None
        of_weight = gradient.flatten(0, -2).T @ rows.flatten(0, -2) if ctx.needs_input_grad[1] else None
        return of_rows, of_weight


def _convolve(rows: Tensor, weight: Tensor) -> Tensor:
    channels = rows.shape[-1]
    count = rows.numel() // channels
    parts = ENOUGH if torch.get_num_threads() == 1 and count % ENOUGH == 0 else 1
    places = rows.reshape(parts, -1, 1, channels).permute(0, 3, 1, 2)  # (parts, C, P, 1), channels last: a view
    out = F.conv2d(places, weight.reshape(-1, channels, 1, 1))
    return out.permute(0, 2, 3, 1).reshape(*rows.shape[:-1], -1)


def _convolution_serves(rows: Tensor, weight: Tensor) -> bool:
    """Whether the convolution computes the same, in float32 throughout, and is worth its call."""
    if not all(type(x) in (Tensor, torch.nn.Parameter) and x.device.type == "cpu" for x in (rows, weight)):
        return False
    if rows.dtype != torch.float32 or weight.dtype != torch.float32 or not rows.is_contiguous():
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or torch.is_autocast_enabled("cpu"):
        return False
    small = rows.numel() < FEWEST_ROWS * rows.shape[-1] or min(weight.shape) < FEWEST_CHANNELS
    onednn: Any = torch.backends.mkldnn
    return not small and bool(onednn.enabled) and onednn.conv.fp32_precision in ("none", "ieee")
