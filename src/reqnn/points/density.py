"""Kernel density of a point cloud, as PointConv uses it (paper, Table 1: needs no revision)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points._coordinates import check_cloud, check_length


def density(xyz: Any, bandwidth: float) -> Tensor:
    """Gaussian density at every point, ρ_i = 1/N Σ_j exp(-‖x_i - x_j‖² / 2h²) / (2.5 h), differentiable in xyz.

    Shapes: xyz (B, N, 3) -> (B, N). Paper: sections 3.3 and 3.4; h is the bandwidth.
    """
    xyz = check_cloud(xyz, "xyz")
    bandwidth = check_length(bandwidth, "bandwidth")
    distance = torch.cdist(xyz, xyz, compute_mode="donot_use_mm_for_euclid_dist")
    return (distance / bandwidth).square().mul(-0.5).exp().mean(-1) / (2.5 * bandwidth)
