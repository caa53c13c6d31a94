"""PRIN, the pointwise rotation-invariant network, for classification (You et al., AAAI 2020)."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from ..errors import InputError
from .layers import check_points, scaled
from .registry import register
from .so3 import SO3Convolution, SO3Transform


@torch.no_grad()
def spherical_grid(points: torch.Tensor, b: int, shells: int) -> torch.Tensor:
    """Density-aware adaptive sampling: a cloud as a signal on a grid of radius, polar angle β and azimuth α.

    The cell of shell s, row j, column k is the mean of 1 − |ρ − (s + 1)|, ρ = `shells`·r, over the points of row j within one
    shell and |α − α_k| < (π/2b)/sin β_j: wider near the poles. Empty cells are 0. The cloud is moved and scaled into the unit
    ball around its centroid. As in the paper; of the authors' sampler, which cuts the window at α = 0, not.

    Shapes: points (B, N, 3) → (B, shells, 2b, 2b).
    """
    points = points - points.mean(dim=1, keepdim=True)
    radius = torch.linalg.vector_norm(points, dim=2)  # (B, N)
    rho = 0.999 * shells * radius / radius.amax(dim=1, keepdim=True).clamp_min(1e-12)  # inside: no point on the last shell
    beta = torch.acos((points[..., 2] / radius.clamp_min(1e-12)).clamp(-1, 1))
    row = (beta * (2 * b / math.pi)).long().clamp(max=2 * b - 1)
    half_width = 0.5 / torch.sin((2 * row + 1) * (math.pi / (4 * b)))
    column = torch.atan2(points[..., 1], points[..., 0]) * (b / math.pi)
    away = torch.remainder(column.unsqueeze(2) - torch.arange(2 * b, device=points.device) + b, 2 * b) - b
    window = (away.abs() < half_width.unsqueeze(2)).to(points.dtype)  # (B, N, 2b)

    below = rho.floor().long()
    shell = torch.stack([below, below - 1], dim=2)  # the hat functions that a point lies under, (B, N, 2)
    inside = ((shell >= 0) & (shell < shells)).to(points.dtype)
    value = inside * (1 - (rho.unsqueeze(2) - (shell + 1)).abs())
    cloud = torch.arange(points.shape[0], device=points.device)[:, None, None]
    line = (cloud * shells + shell.clamp(0, shells - 1)) * 2 * b + row.unsqueeze(2)
    size = points.shape[0] * shells * 2 * b
    total, count = (
        points.new_zeros(size, 2 * b).index_add(0, line.flatten(), (weight.unsqueeze(3) * window.unsqueeze(2)).flatten(0, 2))
        for weight in (value, inside)
    )
    return (total / count.clamp_min(1)).view(-1, shells, 2 * b, 2 * b)


@register("prin", revisable=False)
class PRIN(nn.Module):
    """The cloud on a spherical grid, three spherical convolutions, the mean over γ and the maximum over the sphere.

    | layer | channels |
    |---|---|
    | convolution on the sphere, BN, ReLU | 64 shells → 50 |
    | two convolutions on SO(3), each with BN and ReLU | 50→50→50 |
    | mean over γ, max over α and β; head, hidden layers with BN and ReLU | 50→256→128→classes |

    The authors' classifier is not released: this is their first layer of 2020 with their classifier of 2021 (577,130
    parameters). `radial=False` is that of 2021 (375,530), whose first kernels are constant in γ, where the shells lie there: it
    depends on the mean over the shells only. Grid, ReLU and maximum are invariant to rotations approximately, the more so the
    larger `bandwidth`; the rest exactly.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    min_points = 1

    def __init__(
        self, num_classes: int = 40, width: float = 1.0, bandwidth: int = 32, shells: int = 64, radial: bool = True
    ) -> None:
        super().__init__()
        if min(bandwidth, shells) < 1:
            raise InputError(f"bandwidth={bandwidth} and shells={shells}; give whole numbers, at least 1")
        self.shells, self.radial = shells, radial
        c, h1, h2 = (scaled(channels, width) for channels in (50, 256, 128))
        self.transform = SO3Transform(bandwidth)
        self.convs = nn.ModuleList([SO3Convolution(shells if radial else 1, c, bandwidth, sphere=True)])
        self.convs += [SO3Convolution(c, c, bandwidth) for _ in range(2)]
        self.biases = nn.ParameterList([torch.zeros(c) for _ in range(3)])
        self.bns = nn.ModuleList([nn.BatchNorm3d(c) for _ in range(3)])
        hidden = [(nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU()) for i, o in ((c, h1), (h1, h2))]
        self.head = nn.Sequential(*hidden[0], *hidden[1], nn.Linear(h2, num_classes))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        check_points(points, self.min_points, "PRIN samples points on a grid")
        grid = spherical_grid(points, self.transform.b, self.shells)
        return self.classify(self.transform.sphere(grid if self.radial else grid.mean(dim=1, keepdim=True)))

    def classify(self, spectrum: torch.Tensor) -> torch.Tensor:
        """Logits (B, num_classes) of the spectrum (B, C, b, b, 1) of signals on the sphere."""
        for layer, (conv, bias, bn) in enumerate(zip(self.convs, self.biases, self.bns, strict=True)):
            signal = self.transform.inverse(conv(spectrum)) + bias[:, None, None, None]
            signal = F.relu(bn(signal))
            if layer < 2:
                spectrum = self.transform(signal)
        return self.head(signal.mean(dim=4).amax(dim=(2, 3)))
