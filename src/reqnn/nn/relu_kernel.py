"""The ReLU rule for a constant c in one pass over memory, with its derivative by hand.

    f(x) = ‖x‖ / max{‖x‖, c} · x        ∂f·g = g where ‖x‖ > c, else (‖x‖·g + ⟨x, g⟩/‖x‖·x) / c

Plain torch takes ten passes and keeps half of them for the backward pass; element-wise passes, not matrix products, are what
a revised network spends its time on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.nn.loops import run_loop
from reqnn.points import kernels
from reqnn.tensor import safe_sqrt


def relu_reference(x: Tensor, c: float) -> Tensor:
    """The rule in plain torch: components (3, *) or (4, *)."""
    norm = safe_sqrt(x.square().sum(0))
    bound = norm.clamp(min=c)
    return x * (norm / torch.where(bound > 0, bound, 1))


def relu(x: Tensor, c: float) -> Tensor:
    """The rule by the kernel where it can run, else in plain torch."""
    return _Relu.apply(x, c) if _serves(x) and c > 0 else relu_reference(x, c)


def _serves(x: Tensor) -> bool:
    plain = type(x) is Tensor and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    if not plain or x.shape[0] != 3 or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return kernels.available() and x.numel() > 0


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, c: float) -> Tensor:
        x = _dense(x)
        ctx.save_for_backward(x)
        ctx.c = c
        out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        run_loop("relu_loops", "forward", _blocks(x), c, _blocks(out))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        (gradient,) = gradients
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: plain torch can have it
            with torch.enable_grad():
                copy = x.detach().requires_grad_() if not x.requires_grad else x
                return torch.autograd.grad(relu_reference(copy, ctx.c), copy, gradient, create_graph=True)[0], None
        given = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(gradient)
        out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        run_loop("relu_loops", "backward", _blocks(x), _blocks(given), ctx.c, _blocks(out))
        return out, None


def _dense(x: Tensor) -> Tensor:
    """x in memory without gaps, its hidden axis between an outer and an inner block; as it is, where it is so already."""
    inner = x.stride(0)
    size, expected = x.numel() // 3, 1
    for stride, length in sorted(zip(x.stride(), x.shape, strict=True)):
        if length == 1:
            continue
        if stride != expected:
            return x.contiguous()
        expected *= length
    return x if inner >= 1 and size % inner == 0 else x.contiguous()


def _blocks(x: Tensor) -> Tensor:
    """(3, *) as (P, 3, Q): memory order, whatever the logical order is."""
    inner = x.stride(0)
    return torch.as_strided(x, (x.numel() // (3 * inner), 3, inner), (3 * inner, inner, 1))
