"""Kernel density of a point cloud, as PointConv uses it (paper, Table 1: needs no revision)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.points import kernels
from reqnn.points._coordinates import check_cloud, check_length, distances


def density(xyz: Any, bandwidth: float) -> Tensor:
    """Gaussian density at every point, ρ_i = 1/N Σ_j exp(-‖x_i - x_j‖² / 2h²) / (2.5 h), differentiable in xyz.

    Shapes: xyz (B, N, 3) -> (B, N). Paper: sections 3.3 and 3.4; h is the bandwidth.
    """
    xyz = check_cloud(xyz, "xyz")
    bandwidth = check_length(bandwidth, "bandwidth")
    if xyz.requires_grad and torch.is_grad_enabled():
        return plain_density(xyz, bandwidth)
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting() and xyz.device.type == "cpu":
        return _opaque_density(xyz, bandwidth)
    return _density(xyz.detach(), bandwidth)


def plain_density(xyz: Tensor, bandwidth: float) -> Tensor:
    """The formula in plain torch, for checked input: (B, N, 3) -> (B, N)."""
    return (distances(xyz, xyz) / bandwidth).square().mul(-0.5).exp().mean(-1) / (2.5 * bandwidth)


def _density(xyz: Tensor, bandwidth: float) -> Tensor:
    """The same by a kernel for float32 clouds, where one can run and the square of the bandwidth has all its digits."""
    limits = torch.finfo(torch.float32)
    if xyz.dtype == torch.float32 and limits.tiny / limits.eps < bandwidth**2 < limits.max and kernels.serves(xyz):
        return (kernels.sum_gaussians(xyz, bandwidth) / (xyz.shape[1] * 2.5 * bandwidth)).to(xyz.dtype)
    return plain_density(xyz, bandwidth)


@torch.library.custom_op("reqnn::density", mutates_args=())
def _opaque_density(xyz: Tensor, bandwidth: float) -> Tensor:
    """One node for torch.compile, which runs the kernel; torch.export gets plain operations."""
    return _density(xyz, bandwidth)


@_opaque_density.register_fake
def _(xyz: Tensor, bandwidth: float) -> Tensor:
    return xyz.new_empty(xyz.shape[:2])
