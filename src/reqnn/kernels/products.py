"""Products of rows with one matrix, x·Wᵀ, of all pairs of rows, and of rows with as many others, aᵀ·b, the fastest way.

On CPUs where oneDNN's kernels are ahead of the BLAS that torch links, as on AMD's, they take half the time. torch lets them be
called as the linear layer of its compiler and as the weight gradient of a 1×1 convolution. MKL on Intel's CPUs is as fast, and
writes its result where it belongs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FEWEST_ROWS, FEWEST_CHANNELS = 512, 16  # below, the call costs more than it saves
PARTS = 16  # of a batch with which torch chooses oneDNN for 1×1 convolutions on a single thread, too


def _mkl_on_intel() -> bool:
    names = Path("/proc/cpuinfo")
    return torch.backends.mkl.is_available() and names.is_file() and "GenuineIntel" in names.read_text()


onednn_is_ahead = not _mkl_on_intel()


def times(rows: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """x·Wᵀ for every row, written to `out` if it is given, without gradients. Shapes: rows (*, C), weight (O, C) → (*, O)"""
    fast = _onednn_serves(rows, weight, min(weight.shape))
    if out is not None:
        if fast:
            return out.copy_(_linear(rows, weight))
        torch.mm(rows.flatten(0, -2), weight.T, out=out.view(-1, len(weight)))
        return out
    if not fast:
        return F.linear(rows, weight)
    found: Tensor = _Times.apply(rows, weight) if torch.is_grad_enabled() else _linear(rows, weight)
    return found


def add_times(total: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """total += x·Wᵀ for every row, without gradients. Shapes: rows (*, C), weight (O, C), total (*, O)"""
    if _onednn_serves(rows, weight, min(weight.shape)):
        return total.add_(_linear(rows, weight))
    total.view(-1, len(weight)).addmm_(rows.flatten(0, -2), weight.T)
    return total


def add_outer(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """total += Σ a ⊗ b over all rows, without gradients. Shapes: a (*, O), b (*, C), total (O, C)"""
    if _onednn_serves(a, b, min(a.shape[-1], b.shape[-1])):
        return total.add_(outer(a, b))
    return total.addmm_(a.reshape(-1, a.shape[-1]).T, b.reshape(-1, b.shape[-1]))


def pairs(a: Tensor, b: Tensor) -> Tensor:
    """⟨a_n, b_m⟩ of all pairs of rows, matrix by matrix. Shapes: a (*, N, D), b (*, M, D) → (*, N, M)"""
    alike = a.shape[:-2] == b.shape[:-2] and a.numel() > 0 and a.dim() > 2
    if torch.compiler.is_compiling() or not alike or a.shape[-2] < FEWEST_ROWS or not _onednn_serves(a, b, min(b.shape[-2:])):
        return a @ b.mT
    matrices = zip(a.flatten(0, -3), b.flatten(0, -3), strict=True)
    return torch.stack([times(rows, weight) for rows, weight in matrices]).unflatten(0, a.shape[:-2])


def outer(a: Tensor, b: Tensor) -> Tensor:
    """Σ a ⊗ b over all rows. Shapes: a (*, O), b (*, C) → (O, C)"""
    a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    if torch.is_grad_enabled() or not _onednn_serves(a, b, min(a.shape[1], b.shape[1])):
        return a.T @ b
    whole = len(a) // PARTS * PARTS
    images = [x[:whole].reshape(PARTS, -1, 1, x.shape[1]).permute(0, 3, 1, 2) for x in (a, b)]  # channels last: views
    shape = a.new_empty(1).expand(a.shape[1], b.shape[1], 1, 1)
    rest: tuple[Any, ...] = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False])
    out: Tensor = torch.ops.aten.convolution_backward(*images, shape, None, *rest)[1].flatten(1)
    return out if whole == len(a) else out.addmm_(a[whole:].T, b[whole:])


class _Times(torch.autograd.Function):
    """The gradient of x is such a product too, and that of W a sum over all rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _linear(rows, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_rows = times(gradient, weight.T) if ctx.needs_input_grad[0] else None
        return of_rows, outer(gradient, rows) if ctx.needs_input_grad[1] else None


def _linear(rows: Tensor, weight: Tensor) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(rows.contiguous(), weight.contiguous(), None, "none", [], "")
    return out


def _onednn_serves(a: Tensor, b: Tensor, narrowest: int) -> bool:
    """Whether oneDNN computes the same, in float32 throughout, and is worth its call."""
    if not onednn_is_ahead or torch.compiler.is_compiling():  # there sizes are symbols: a comparison would fix them
        return False
    if narrowest < FEWEST_CHANNELS or a.dtype != torch.float32 or b.dtype != torch.float32:
        return False
    if a.numel() < FEWEST_ROWS * a.shape[-1] or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    plain = (Tensor, torch.nn.Parameter)
    if type(a) not in plain or type(b) not in plain or not a.is_cpu or not b.is_cpu:
        return False
    if torch._C._are_functorch_transforms_active() or torch.is_autocast_enabled("cpu"):
        return False
    onednn: Any = torch.backends.mkldnn
    exact = onednn.conv.fp32_precision in ("none", "ieee") and onednn.matmul.fp32_precision in ("none", "ieee")
    return exact and bool(onednn.enabled)
