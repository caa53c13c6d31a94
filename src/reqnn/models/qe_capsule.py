"""The quaternion equivariant capsule network (Zhao et al., ECCV 2020)."""

from __future__ import annotations

import math

import torch
import torch.nn as nn

from .. import quaternion
from ..points import farthest_point_sample, knn
from .grouping import index_points
from .layers import check_points, scaled
from .registry import register


def positive(q: torch.Tensor) -> torch.Tensor:
    """Of q and −q, which are the same rotation, the one whose real part is not negative."""
    return torch.where(q[..., :1] < 0, -q, q)


def top_eigenvector(matrix: torch.Tensor) -> torch.Tensor:
    """Eigenvector u of the largest eigenvalue λ of symmetric matrices (…, 4, 4) → (…, 4), with du = (λ − M)⁺ dM u.

    The gradient is that of u alone: it stays finite if other eigenvalues coincide, and is bounded if λ does with one of them.
    """
    fixed = matrix.detach()
    values, vectors = torch.linalg.eigh(fixed)
    top = vectors[..., -1]
    if not matrix.requires_grad:
        return top
    others = vectors[..., :-1]
    gaps = (values[..., -1:] - values[..., :-1]).clamp_min(1e-3 * values[..., -1:].abs().clamp_min(1e-6))
    change = ((matrix - fixed) @ top.unsqueeze(-1)).squeeze(-1)  # zero, with a gradient
    return top + ((others.mT @ change.unsqueeze(-1)).squeeze(-1) / gaps).unsqueeze(-2).mul(others).sum(-1)


@torch.no_grad()
def local_reference_frames(points: torch.Tensor, k: int) -> torch.Tensor:
    """A frame (columns x, y, z) at each point from its k nearest points (FLARE, Petrelli and Di Stefano 2012); 0 if none.

    z is the normal of the plane through them, towards the centroid of the cloud; x points to the one that is highest above the
    tangent plane among the farthest (beyond 0.85 of the largest distance). On flat surfaces x is decided by rounding.

    Shapes: points (B, N, 3) → (B, N, 3, 3).
    """
    near = index_points(points, knn(points, points, k)) - points.unsqueeze(2)  # (B, N, k, 3)
    spread = near - near.mean(dim=2, keepdim=True)
    z = torch.linalg.eigh(spread.mT @ spread)[1][..., 0]
    inwards = ((points.mean(dim=1, keepdim=True) - points) * z).sum(-1, keepdim=True)
    z = torch.where(inwards < 0, -z, z)
    distance, height = torch.linalg.vector_norm(near, dim=-1), (near * z.unsqueeze(2)).sum(-1)
    rim = height.masked_fill(distance < 0.85 * distance.amax(-1, keepdim=True), -math.inf).argmax(-1)
    x = near.take_along_dim(rim[..., None, None], 2).squeeze(2)
    x = x - (x * z).sum(-1, keepdim=True) * z
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    x = x / length.clamp_min(1e-12)
    x = nn.functional.normalize(x - (x * z).sum(-1, keepdim=True) * z, dim=-1)  # again: rounding is large if x was short
    frame = torch.stack([x, torch.linalg.cross(z, x), z], dim=-1)
    return frame * (length > 1e-6).unsqueeze(-1)


class QuaternionCapsules(nn.Module):
    """Each input capsule votes for each output pose; the poses are means of the votes, weighted by agreement (Algorithm 1).

    Votes q ⊗ t, with t from the point as seen from the mean frame of the patch; a mean of quaternions is the top eigenvector of
    Σ w vvᵀ (Markley et al. 2007); three iterations of routing. Frames q → g ⊗ q and points p → g p give poses g ⊗ pose, and
    activations that do not change.

    Shapes: points (P, K, 3), poses (P, K, C, 4), activations (P, K, C) → poses (P, O, 4), logits of activations (P, O).
    """

    def __init__(self, in_capsules: int, out_capsules: int, iterations: int = 3) -> None:
        super().__init__()
        self.size, self.iterations = (in_capsules, out_capsules), iterations
        self.hidden = nn.Linear(3 * in_capsules, out_capsules)
        self.transform = nn.Linear(out_capsules, out_capsules * in_capsules * 4)
        self.alpha, self.beta = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))

    def forward(
        self, points: torch.Tensor, poses: torch.Tensor, activations: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        mean = top_eigenvector(torch.einsum("pkci,pkcj->pcij", poses, poses))
        seen = quaternion.rotate(quaternion.conjugate(mean).unsqueeze(1), points.unsqueeze(2))  # (P, K, C, 3)
        t = self.transform(self.hidden(seen.flatten(2))).unflatten(2, (*self.size, 4))
        t = positive(nn.functional.normalize(t, dim=-1))
        votes = positive(quaternion.multiply(poses.unsqueeze(3), t)).flatten(1, 2).transpose(1, 2)  # (P, O, K·C, 4)
        given = activations.flatten(1).unsqueeze(1)  # (P, 1, K·C)
        agreed, fixed = given.expand(votes.shape[:-1]), votes.detach()
        for _ in range(self.iterations - 1):
            agreed = agreed * given * (1 - distance(self.mean(agreed, fixed), fixed))
        pose = self.mean(agreed, votes)
        score = agreed * (1 - distance(pose, votes))
        count = (agreed != 0).sum(-1).clamp_min(1)
        return pose, self.alpha * score.sum(-1) / count + self.beta - 1

    @staticmethod
    def mean(weights: torch.Tensor, votes: torch.Tensor) -> torch.Tensor:
        """Weighted mean (P, O, 4) of quaternions (P, O, I, 4)."""
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
        return top_eigenvector((weights.unsqueeze(-1) * votes).mT @ votes)


def distance(pose: torch.Tensor, votes: torch.Tensor) -> torch.Tensor:
    """Angle between rotations in units of π: (2/π) arccos |⟨pose, vote⟩|; (P, O, 4), (P, O, I, 4) → (P, O, I)."""
    return torch.acos((votes @ pose.unsqueeze(-1)).squeeze(-1).abs().clamp(max=0.9999)) * (2 / math.pi)


@register("qe_capsule", revisable=False)
class QECapsule(nn.Module):
    """Local reference frames as capsules: 256 patches of 9 points, 64 capsules per patch, then one capsule per class.

    | layer | patches | points per patch | capsules |
    |---|---|---|---|
    | pool1 | 256 | 9 | 1→64 |
    | pool2 | 1 | 256 | 64→classes |

    Exactly invariant given frames that rotate with the points; `frames` (B, N, 3, 3) may be given, else they are estimated from
    the `neighbours` nearest points. Patches are the nearest points of centres chosen by farthest point sampling from the
    centroid, where the authors cover the cloud in storage order. Logits are the arguments of the last sigmoid, `sharpness`
    times: the order of the classes is that of the activations.

    Shapes: points (B, N, 3) → logits (B, num_classes).
    """

    def __init__(
        self,
        num_classes: int = 40,
        width: float = 1.0,
        npoint: int = 256,
        nsample: int = 9,
        neighbours: int = 32,
        capsules: int = 64,
        sharpness: float = 1.0,
    ) -> None:
        super().__init__()
        self.npoint, self.nsample, self.neighbours, self.sharpness = npoint, nsample, neighbours, sharpness
        self.min_points = max(npoint, nsample, neighbours)
        self.pool1 = QuaternionCapsules(1, scaled(capsules, width))
        self.pool2 = QuaternionCapsules(scaled(capsules, width), num_classes)

    def forward(self, points: torch.Tensor, frames: torch.Tensor | None = None) -> torch.Tensor:
        return self.sharpness * self.capsules(points, frames)[1]

    def capsules(self, points: torch.Tensor, frames: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Pose (B, num_classes, 4) of the object by each class, and the logit (B, num_classes) of its activation."""
        check_points(points, self.npoint, f"QE-Capsule samples npoint = {self.npoint} points")
        check_points(points, self.neighbours, f"a frame is of neighbours = {self.neighbours} points", "neighbours")
        check_points(points, self.nsample, f"a patch has nsample = {self.nsample} points", "nsample")
        if frames is None:
            frames = local_reference_frames(points, self.neighbours)
        found = (frames != 0).flatten(2).any(-1)
        valid = found.unsqueeze(-1).to(points.dtype)  # (B, N, 1)
        poses = quaternion.from_matrix(torch.where(found[..., None, None], frames, torch.eye(3).to(frames))) * valid
        centres = index_points(points, farthest_point_sample(points, self.npoint))
        idx = knn(points, centres, self.nsample)
        patches, poses, valid = (index_points(x, idx).flatten(0, 1) for x in (points, poses, valid))  # (B·S, K, ·)
        poses, logits = self.pool1(patches, poses.unsqueeze(2), valid)
        poses, logits = (x.unflatten(0, (-1, self.npoint)) for x in (poses, logits))
        return self.pool2(centres, poses, torch.sigmoid(logits))
