"""Edges e_ij = y_j + z_i with batch-norm on norms, directional ReLU and the mean over neighbours, none of them ever stored.

With n = ‖e‖ and the direction k_ij = y′_j + z′_i of the ReLU, linear in the points as the edge is:

    v = e·(scale·n + shift)·n/(n² + ε),    out_i = 1/k Σ_j v − (1 − α)·min{⟨v, k⟩, 0}/(‖k‖² + tiny) · k

Each function has its derivative by hand: one loop over the edges forth, one back. Their oracle are the generic rules.

Shapes:
    y, z, y′, z′: (B, N, 3, O); idx: (B, N, k) int64; scale, shift: (O,)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reqnn.nn.loops import run_loop


class EdgeLengths(torch.autograd.Function):
    """Σ_ij ‖e_ij‖ and Σ_ij ‖e_ij‖² of each channel: (2, O) float64."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, idx: Tensor) -> Tensor:
        """One loop."""
        ctx.save_for_backward(y, z, idx)
        sums = torch.empty(y.shape[0], 2, y.shape[3], dtype=torch.float64)
        run_loop("vector_edge_loops", "measure", y, z, idx, sums)
        return sums.sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        """∂‖e‖/∂e = e/‖e‖, 0 at 0."""
        y, z, idx = ctx.saved_tensors
        of_y, of_z = torch.empty_like(y), torch.empty_like(z)
        of_lengths, of_squares = gradients[0].to(y.dtype).contiguous()
        run_loop("vector_edge_loops", "measure_back", y, z, idx, of_lengths, of_squares, of_y, of_z)
        return of_y, of_z, None


class MeanOverEdges(torch.autograd.Function):
    """out_i, (B, N, 3, O)."""

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        z: Tensor,
        y_direction: Tensor,
        z_direction: Tensor,
        idx: Tensor,
        scale: Tensor,
        shift: Tensor,
        constants: tuple[float, float, float],
    ) -> Tensor:
        """One loop; `constants` are α, ε and tiny."""
        ctx.save_for_backward(y, z, y_direction, z_direction, idx, scale, shift)
        ctx.constants = constants
        out = torch.empty_like(y)
        run_loop("vector_edge_loops", "pool", y, z, y_direction, z_direction, idx, scale, shift, *constants, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        """One loop, in which every edge is made anew."""
        saved = ctx.saved_tensors
        of_points = [torch.empty_like(tensor) for tensor in saved[:4]]
        of_norm = torch.empty(saved[0].shape[0], 2, saved[0].shape[3], dtype=torch.float64)
        gradient = gradients[0].contiguous()
        run_loop("vector_edge_loops", "pool_back", *saved, *ctx.constants, gradient, *of_points, of_norm)
        of_scale, of_shift = of_norm.sum(0).to(saved[5].dtype)
        return *of_points, None, of_scale, of_shift, None
