"""Neighbours, as the networks here find and gather them; channels last."""

from __future__ import annotations

import torch
from torch import Tensor


def knn(x: Tensor, k: int) -> Tensor:
    """(B, N, C) → (B, N, k), in place, as old code has it."""
    square = x.pow(2).sum(-1)
    distance = torch.stack([s[:, None] + s for s in square])
    distance = torch.stack([d.addmm_(a, a.t(), beta=1, alpha=-2) for d, a in zip(distance, x, strict=True)])
    return distance.topk(k, dim=-1, largest=False)[1]


def gather(x: Tensor, index: Tensor) -> Tensor:
    """(B, N, C) and (B, M, k) → (B, M, k, C)."""
    rows = torch.arange(len(x), device=x.device).view(-1, 1, 1)
    return x[rows, index]


def farthest_point_sample(xyz: Tensor, count: int) -> Tensor:
    """(B, N, 3) → (B, count), from the first point in storage."""
    rows = torch.arange(len(xyz), device=xyz.device)
    chosen = torch.zeros(len(xyz), count, dtype=torch.long, device=xyz.device)
    nearest = torch.full(xyz.shape[:2], 1e10, dtype=xyz.dtype, device=xyz.device)
    farthest = chosen[:, 0]
    for i in range(count):
        chosen[:, i] = farthest
        distance = (xyz - xyz[rows, farthest].unsqueeze(1)).pow(2).sum(-1)
        nearest = torch.minimum(nearest, distance)
        farthest = nearest.argmax(-1)
    return chosen
