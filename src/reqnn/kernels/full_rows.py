"""Full quaternions a place a row: invariants of imaginary parts, and the gate, in one pass over memory each.

Rows are places, as in `reqnn.kernels.rows`: maps (*, 3, kinds·count), real parts (*, C), imaginary ones (*, 3, C).
Derivatives are by hand; each function has a plain-torch twin, its oracle and the path where a gradient of a gradient is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels import full_loops
from reqnn.kernels.rows import safe_sqrt
from reqnn.kernels.run import run


def invariants_reference(maps: Tensor, count: int) -> Tensor:
    """`invariants` in plain torch."""
    p, q, *r = maps.unflatten(-1, (-1, count)).unbind(-2)
    found = [safe_sqrt(p.square().sum(-2)), (p * q).sum(-2)]
    if r:
        found.append((torch.linalg.cross(p, q, dim=-2) * r[0]).sum(-2))
    return torch.cat(found, dim=-1)


def gate(real: Tensor) -> Tensor:
    """γ(s) = ½ + ½·s/√(1 + s²), how far the real part opens the imaginary one: a sigmoid without an exponential."""
    return 0.5 + 0.5 * real * (1 + real.square()).rsqrt()


def gated_reference(real: Tensor, imaginary: Tensor) -> Tensor:
    """`gated` in plain torch."""
    return imaginary * gate(real).unsqueeze(-2)


class _Invariants(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(maps)
        ctx.count = count
        out = maps.new_empty(*maps.shape[:-2], maps.shape[-1])
        run(full_loops.row_invariants, maps.flatten(0, -3), count, out.flatten(0, -2))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (maps,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _twice(invariants_reference, (maps,), (ctx.count,), gradients[0])[0], None
        out, given = torch.empty_like(maps), gradients[0].contiguous()
        run(full_loops.row_invariants_back, maps.flatten(0, -3), ctx.count, given.flatten(0, -2), out.flatten(0, -3))
        return out, None


def unit_reference(imaginary: Tensor, eps: float) -> Tensor:
    """`unit` in plain torch."""
    return imaginary * (imaginary.square().sum(-2).mean(-1)[..., None, None] + eps).rsqrt()


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, imaginary: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(imaginary)
        ctx.eps, out = eps, torch.empty_like(imaginary)
        run(full_loops.unit, imaginary.flatten(0, -3), eps, out.flatten(0, -3))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (imaginary,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _twice(unit_reference, (imaginary,), (ctx.eps,), gradients[0])[0], None
        out, given = torch.empty_like(imaginary), gradients[0].contiguous()
        run(full_loops.unit_back, imaginary.flatten(0, -3), ctx.eps, given.flatten(0, -3), out.flatten(0, -3))
        return out, None


def unit(imaginary: Tensor, eps: float) -> Tensor:
    """v / √(1/C Σ_c ‖v_c‖² + ε) of every row. Shapes: imaginary (*, 3, C) → (*, 3, C)"""
    out: Tensor = _Unit.apply(imaginary, eps)
    return out


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real: Tensor, imaginary: Tensor) -> Tensor:
        ctx.save_for_backward(real, imaginary)
        out = torch.empty_like(imaginary)
        run(full_loops.gated, real.flatten(0, -2), imaginary.flatten(0, -3), out.flatten(0, -3))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        real, imaginary = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _twice(gated_reference, (real, imaginary), (), gradients[0])
        of_real, of_imaginary, given = torch.empty_like(real), torch.empty_like(imaginary), gradients[0].contiguous()
        rows = (real.flatten(0, -2), imaginary.flatten(0, -3), given.flatten(0, -3))
        run(full_loops.gated_back, *rows, of_real.flatten(0, -2), of_imaginary.flatten(0, -3))
        return of_real, of_imaginary


def _twice(reference: Callable[..., Tensor], inputs: tuple[Tensor, ...], constants: tuple, gradient: Tensor) -> tuple:
    """Gradients in plain torch, which can be differentiated again."""
    with torch.enable_grad():
        wanted = [x for x in inputs if x.requires_grad]
        found = iter(torch.autograd.grad(reference(*inputs, *constants), wanted, gradient, create_graph=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)


def invariants(maps: Tensor, count: int) -> Tensor:
    """‖p‖, ⟨p, q⟩ and, where there is an r, ⟨p × q, r⟩ of every row. Shapes: maps (*, 3, kinds·count) → (*, kinds·count)"""
    out: Tensor = _Invariants.apply(maps, count)
    return out


def gated(real: Tensor, imaginary: Tensor) -> Tensor:
    """γ(s)·v. Shapes: real (*, C), imaginary (*, 3, C) → (*, 3, C)"""
    out: Tensor = _Gated.apply(real, imaginary)
    return out
