"""Synthetic clouds on closed surfaces, with normals."""

from __future__ import annotations

import torch
from torch import Tensor


def surfaces(batch: int, points: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Random points on bumpy ellipsoids, with their normals; all clouds differ and none is symmetric.

    The surface is r(u) = 1 + Σ_i a_i (⟨u, d_i⟩)³ over unit vectors u, stretched along the axes; it fits in the unit sphere.

    Shapes: xyz (batch, points, 3), normals (batch, points, 3).
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    directions = torch.nn.functional.normalize(normal(batch, points, 3), dim=-1)
    bumps = torch.nn.functional.normalize(normal(batch, 1, 4, 3), dim=-1)
    heights = 0.15 * normal(batch, 1, 4)
    stretch = torch.tensor([1.0, 0.75, 0.5], dtype=torch.float64) * (1 + 0.1 * normal(batch, 1, 3))
    along = (directions.unsqueeze(2) * bumps).sum(-1)  # (B, N, 4)
    radius = 1 + (heights * along**3).sum(-1, keepdim=True)
    # Outward normal of r(u)·u is r·u − the tangential part of ∇r; a stretch divides it.
    slope = (3 * heights * along**2).unsqueeze(-1) * (bumps - along.unsqueeze(-1) * directions.unsqueeze(2))
    outward = radius * directions - slope.sum(2)
    xyz = radius * directions * stretch
    xyz = xyz - xyz.mean(1, keepdim=True)
    xyz = xyz / torch.linalg.vector_norm(xyz, dim=-1).amax(1)[:, None, None]
    return xyz.to(dtype), torch.nn.functional.normalize(outward / stretch, dim=-1).to(dtype)
