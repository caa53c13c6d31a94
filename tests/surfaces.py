"""Clouds on surfaces, dense enough that balls overflow, with no symmetry."""

import torch


def surfaces(batch=4, points=192, seed=0):
    """Points on spheres with bumps of their own: (batch, points, 3)."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(batch, points, 3, generator=generator)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    bumps = torch.randn(batch, 3, 6, generator=generator)
    radius = 1 + 0.25 * torch.tanh((direction @ bumps).pow(2) @ torch.randn(batch, 6, 1, generator=generator))
    return direction * radius * torch.tensor([1.0, 0.8, 0.6])


def points_in_balls(xyz, radius):
    """Mean number of points in balls around each point."""
    return float((torch.cdist(xyz, xyz) < radius).sum(-1).float().mean())
