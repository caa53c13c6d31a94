"""Local reference frame of a cloud from its principal components (paper, section 3.3, 3D coordinates weighting)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from reqnn.points._coordinates import check_cloud
from reqnn.points.ties import EPS_PER_TIE, Centered


def principal_frame(xyz: Any) -> Tensor:
    """Right-handed principal axes a_1, a_2, a_3 of a cloud, by decreasing variance; (x - c) @ frame is invariant.

    The axes are eigenvectors of Σ (x - c)(x - c)ᵀ; the sign of a_i is that of its skewness
    s_i = Σ ((x - c)·a_i)³ / Σ |(x - c)·a_i|³; if that makes det = -1, the axis of smallest |s_i| is flipped.
    No gradient flows through the frame. It is never NaN, but `frame_ambiguity` tells where it is not unique.

    Shapes: xyz (B, N, 3) -> (B, 3, 3), the axes as columns. Paper: section 3.3.
    """
    xyz = check_cloud(xyz, "xyz")
    axes = _axes(xyz)
    return (axes.vectors * axes.signs[:, None]).to(xyz.dtype)


def frame_ambiguity(xyz: Any, tolerance: float | None = None) -> Tensor:
    """Tell for which clouds the principal frame is not unique, to a relative tolerance (√eps where None).

    So where two variances agree; or, as two signs fix the third, where two skewnesses vanish or where it is a toss-up
    which axis to flip.

    Shapes: xyz (B, N, 3) -> (B,) bool.
    """
    xyz = check_cloud(xyz, "xyz")
    tolerance = torch.finfo(xyz.dtype).eps ** 0.5 if tolerance is None else tolerance
    axes = _axes(xyz)
    degenerate = _alike(axes.variances, tolerance)
    least, middle, _ = axes.skewness.abs().sort(1).values.unbind(1)
    return degenerate | (middle <= tolerance) | (axes.flipped & (middle - least <= tolerance))


def degenerate_axes(xyz: Any) -> Tensor:
    """Tell for which clouds two variances agree to √eps, so that no frame of principal axes is unique, whatever its signs.

    Shapes: xyz (B, N, 3) -> (B,) bool.
    """
    xyz = check_cloud(xyz, "xyz")
    return _alike(_axes(xyz).variances, torch.finfo(xyz.dtype).eps ** 0.5)


def _alike(variances: Tensor, tolerance: float) -> Tensor:
    """(B, 3), decreasing → (B,): whether two neighbouring ones agree."""
    return (-variances.diff(dim=1) <= tolerance * variances[:, :1]).any(1)


def right_handed_frames(xyz: Any) -> Tensor:
    """Give all four right-handed sign choices of the principal axes: a mean over them needs no sign rule.

    Shapes: xyz (B, N, 3) -> (B, 4, 3, 3), the axes as columns; the first is `principal_frame`.
    """
    frame = principal_frame(xyz)
    signs = [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    return frame[:, None] * torch.tensor(signs, dtype=frame.dtype, device=frame.device)[:, None]


class _Axes(NamedTuple):
    vectors: Tensor  # (B, 3, 3), columns
    variances: Tensor  # (B, 3), decreasing
    skewness: Tensor  # (B, 3), along the vectors
    signs: Tensor  # (B, 3), ±1 for each vector
    flipped: Tensor  # (B,), whether one sign goes against its skewness


def _axes(xyz: Tensor) -> _Axes:
    thin = EPS_PER_TIE * torch.finfo(xyz.dtype).eps
    x = Centered.of(xyz.detach().double()).xyz  # 3×3 problems are small: solve them to the last digit of the input
    radius = torch.linalg.vector_norm(x, dim=-1).amax(1)[:, None, None]
    x = x / torch.where(radius > 0, radius, 1.0)
    covariance = x.mT @ x / x.shape[1]
    variances, vectors = _eigh(covariance) if torch.compiler.is_exporting() else torch.linalg.eigh(covariance)
    variances, vectors = variances.flip(1).clamp_min(0), vectors.flip(2)
    along = x @ vectors
    # of an axis on which the cloud has no extent only rounding is left, which is not skewed
    flat = along.abs().amax(1) <= thin
    skewness = along.pow(3).sum(1) / torch.where(flat, 1.0, along.abs().pow(3).sum(1))
    signs = torch.where(skewness < 0, -1.0, 1.0).to(x.dtype)
    determinant = (torch.linalg.cross(vectors[..., 0], vectors[..., 1], dim=1) * vectors[..., 2]).sum(1)
    flipped = determinant * signs.prod(1) < 0
    least = torch.nn.functional.one_hot(skewness.abs().argmin(1), 3).bool()
    return _Axes(vectors, variances, skewness, torch.where(flipped[:, None] & least, -signs, signs), flipped)


def _eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """`torch.linalg.eigh` of (B, 3, 3) in operations that ONNX has: Jacobi rotations, which converge in 4 or 5 sweeps."""
    identity = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    vectors = identity.expand_as(matrix)
    for p, q in 6 * [(0, 1), (0, 2), (1, 2)]:
        gap, twice = matrix[:, q, q] - matrix[:, p, p], 2 * matrix[:, p, q]
        length = gap.abs() + (gap * gap + twice * twice).sqrt()
        tangent = torch.where(gap < 0, -twice, twice) / torch.where(length > 0, length, 1.0)
        cosine = (1 + tangent * tangent).rsqrt()
        on, across = identity[p].outer(identity[p]) + identity[q].outer(identity[q]), identity[p].outer(identity[q])
        rotation = identity + (cosine - 1)[:, None, None] * on + (cosine * tangent)[:, None, None] * (across - across.T)
        matrix, vectors = rotation.mT @ matrix @ rotation, vectors @ rotation
    variances, order = matrix.diagonal(dim1=1, dim2=2).sort(1)
    return variances, vectors.gather(2, order[:, None].expand_as(vectors))
