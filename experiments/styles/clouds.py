"""Example clouds of the kind that the networks were written for: surfaces, centred, scaled into the unit ball."""

import torch
from torch import Tensor


def surfaces(batch: int, n: int, parts: int = 4, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return clouds (B, N, 3), each sampled from a few random ellipsoids; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    radii = 0.15 + 0.6 * torch.rand(batch, parts, 3, generator=generator, dtype=torch.float64)
    centres = 0.8 * torch.randn(batch, parts, 3, generator=generator, dtype=torch.float64)
    part = torch.randint(parts, (batch, n, 1), generator=generator).expand(-1, -1, 3)
    sphere = torch.nn.functional.normalize(torch.randn(batch, n, 3, generator=generator, dtype=torch.float64), dim=-1)
    points = sphere * radii.gather(1, part) + centres.gather(1, part)
    points = points - points.mean(dim=1, keepdim=True)
    return (points / points.norm(dim=-1).amax(dim=1)[:, None, None]).to(dtype)
