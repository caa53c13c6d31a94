"""Edges of full quaternions: invariants of the imaginary parts, then batch-norm, gate, and the pooling over neighbours.

Imaginary parts of an edge are e_ij = y_j + z_i, the linear maps whose invariants are taken p_ij = p_j + p′_i, and its real part
before the batch-norm is s_ij = t_ij + a_j + b_i, with t = U·invariants. With u = scale·s + shift and the gate γ:

    real part       φ(max_j u_ij),    φ the leaky ReLU
    imaginary part  1/k Σ_j γ(u_ij)·e_ij, or γ(u_ij)·e_ij / √(1/O Σ_c ‖e_ij,c‖² + ε)

Only the invariants, which are few, and s_ij are stored; each function has its derivative by hand. Their oracle are the generic
rules.

Shapes:
    p, p′: (B, N, 3, kinds·count); idx: (B, N, k) int64; invariants: (B, N, k, kinds·count)
    t: (B, N, k, O); a, b: (B, N, O); y, z: (B, N, 3, O); scale, shift: (O,)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reqnn.nn.loops import run_loop

EDGE_LOOPS, PART_LOOPS = "full_edge_loops", "full_part_loops"


class EdgeInvariants(torch.autograd.Function):
    """‖p‖, ⟨p, q⟩ and, where there are three maps, ⟨p × q, r⟩ of every edge: (B, N, k, kinds·count)."""

    @staticmethod
    def forward(ctx: Any, near: Tensor, centre: Tensor, idx: Tensor, count: int) -> Tensor:
        """One loop."""
        ctx.save_for_backward(near, centre, idx)
        ctx.count = count
        out = near.new_empty(*idx.shape, near.shape[3])
        run_loop(PART_LOOPS, "edge_invariants", near, centre, idx, count, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        """One loop; the derivative of a norm at 0 is 0."""
        near, centre, idx = ctx.saved_tensors
        of_near, of_centre = torch.empty_like(near), torch.empty_like(centre)
        given = gradients[0].contiguous()
        run_loop(PART_LOOPS, "edge_invariants_back", near, centre, idx, ctx.count, given, of_near, of_centre)
        return of_near, of_centre, None, None


@dataclass(frozen=True)
class Pooling:
    """The constants of `PoolEdges`.

    Attributes:
        slope: of the leaky ReLU.
        norm_eps: of the batch-norm.
        unit: ε of the unit size at each edge; 0 where imaginary parts keep their size.
        running: mean and variance to normalise by, (O,) each; None for those of the batch.
    """

    slope: float
    norm_eps: float
    unit: float
    running: tuple[Tensor, Tensor] | None = None


class PoolEdges(torch.autograd.Function):
    """Both pooled parts, (B, N, O) and (B, N, 3, O), then mean and variance of s (O,) float64. `t` is overwritten."""

    @staticmethod
    def forward(
        ctx: Any,
        t: Tensor,
        a: Tensor,
        b: Tensor,
        y: Tensor,
        z: Tensor,
        gamma: Tensor,
        beta: Tensor,
        idx: Tensor,
        pooling: Pooling,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Two loops: one for s and its statistics, one for the rest."""
        sums = torch.empty(t.shape[0], 2, t.shape[3], dtype=torch.float64)
        run_loop(EDGE_LOOPS, "add_ends", t, a, b, idx, sums)
        if pooling.running is None:
            mean, square = sums.sum(0) / idx.numel()
            variance = (square - mean.square()).clamp(min=0)
        else:
            mean, variance = (statistic.double() for statistic in pooling.running)
        inverse = (variance + pooling.norm_eps).rsqrt()
        scale = gamma.double() * inverse
        shift = beta.double() - mean * scale
        narrow = scale.to(t.dtype), shift.to(t.dtype)
        real, imaginary = torch.empty_like(a), torch.empty_like(y)
        winner = torch.empty(a.shape, dtype=torch.int32)
        run_loop(EDGE_LOOPS, "pool", t, y, z, idx, *narrow, pooling.slope, pooling.unit, real, winner, imaginary)
        ctx.save_for_backward(t, y, z, idx, *narrow, winner, mean, inverse, scale)
        ctx.pooling = pooling
        ctx.mark_non_differentiable(mean, variance)
        return real, imaginary, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        """Two loops: from the outputs to u, and from u, through the statistics, to what s was made of."""
        t, y, z, idx, scale, shift, winner, mean, inverse, exact = ctx.saved_tensors
        pooling: Pooling = ctx.pooling
        of_u, of_y, of_z = torch.empty_like(t), torch.empty_like(y), torch.empty_like(z)
        sums = torch.empty(t.shape[0], 2, t.shape[3], dtype=torch.float64)
        of_real, of_imaginary = (gradient.contiguous() for gradient in gradients[:2])
        constants = (scale, shift, pooling.slope, pooling.unit)
        run_loop(
            EDGE_LOOPS, "pool_back", t, y, z, idx, *constants, winner, of_real, of_imaginary, of_u, of_y, of_z, sums
        )  # fmt: skip
        total, weighted = sums.sum(0)
        of_gamma = (weighted - mean * total) * inverse
        constant = linear = torch.zeros_like(scale)
        if pooling.running is None:  # ∂mean and ∂variance of the batch
            slope = -exact * inverse * of_gamma / idx.numel()
            constant, linear = (-exact * total / idx.numel() - slope * mean).to(t.dtype), slope.to(t.dtype)
        of_a, of_b = t.new_empty(t.shape[0], t.shape[1], t.shape[3]), t.new_empty(t.shape[0], t.shape[1], t.shape[3])
        run_loop(EDGE_LOOPS, "spread", of_u, t, idx, scale, constant, linear, of_a, of_b)
        return of_u, of_a, of_b, of_y, of_z, of_gamma.to(t.dtype), total.to(t.dtype), None, None
