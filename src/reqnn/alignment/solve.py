"""`align`: the rotation and translation between two clouds from rotation-equivariant features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import roma
import torch
from torch import Tensor, nn

from reqnn.alignment.correlation import candidates, reliability, rotation_between
from reqnn.alignment.moments import area_weights, centroid, root_mean_square, shell_moments, to_vectors
from reqnn.alignment.network import load_network, network_moments
from reqnn.alignment.result import AMBIGUOUS_BELOW, Alignment, stacked
from reqnn.alignment.verdict import Fit, thinned
from reqnn.errors import InputError
from reqnn.extras import need
from reqnn.points._coordinates import check_cloud
from reqnn.revision.module import RevisedModel

_MOST_POINTS, _MOST_FOR_NETWORKS = 16384, 2048
_FLAT = 1e-6  # extents below this share of the largest count as none
_SIZES = 2.0  # largest ratio of the sizes of the clouds
_SPACINGS, _MISFIT = 2.0, 0.05  # a good fit: up to two distances between neighbouring points, and 5 % of the radius
_ICP_ITERATIONS = 50


def align(
    model: nn.Module | str | Path | None,
    source: Tensor,
    target: Tensor,
    *,
    at: str | None = None,
    refine: bool = False,
    scale: bool = False,
) -> Alignment:
    """The rotation and translation that bring a source cloud onto a target, without matching points.

    R minimises Σ_c w_c ‖f_c(target) − R f_c(source)‖² over the channels c of equivariant features f, weighted by their
    reliability under resampling. For vectors this is Horn's problem, solved in closed form; features of higher degree may leave
    several rotations, and the one that fits the clouds best is taken. The clouds may differ in the number and the order of
    their points; both should show the whole object.

    Args:
        model: the source of the features: a revised network, the folder of a training run, or None for closed-form ones
            that need no training (`reqnn.alignment.moments`).
        source: (N, 3), or (B, N, 3).
        target: (M, 3), or (B, M, 3).
        at: the submodule of the network whose quaternion features are taken; default: the input of Quaternion2Real.
            Per-point features are used up to degree 6, pooled ones as vectors.
        refine: refine the result by ICP (trimesh).
        scale: also find the ratio of the sizes; otherwise both clouds must be in the same units.

    Returns:
        An `Alignment`: rotation, translation, matrix, confidence, whether symmetry makes it ambiguous, and why.
    """
    if model is None and at is not None:
        raise InputError(f"at='{at}' names a submodule, but model is None: pass a revised network")
    network = None if model is None else load_network(model)
    source, target = _cloud(source, "source"), _cloud(target, "target")
    if source.dim() != target.dim() or source.shape[:-2] != target.shape[:-2]:
        shapes = f"source has shape {tuple(source.shape)}, target {tuple(target.shape)}"
        raise InputError(f"{shapes}; give two clouds, (N, 3) and (M, 3), or two batches of the same size")
    if source.dim() == 3:
        pairs = zip(source, target, strict=True)
        return stacked([_align(network, one, other, at, refine, scale) for one, other in pairs])
    return _align(network, source, target, at, refine, scale)


def _align(
    network: RevisedModel | None, source: Tensor, target: Tensor, at: str | None, refine: bool, scale: bool
) -> Alignment:
    """One pair, (N, 3) and (M, 3)."""
    x, y = _Centred(source), _Centred(target)
    factor = y.size / x.size if scale and min(x.dimensions, y.dimensions) else 1.0
    x.points, x.size = x.points * factor, x.size * factor
    dimensions, shift = min(x.dimensions, y.dimensions), torch.zeros(3, dtype=torch.float64)
    if dimensions == 0:
        rotation, confidence, residual = torch.eye(3, dtype=torch.float64), 0.0, abs(x.size - y.size)
        reason = "all points of a cloud coincide: any rotation fits"
    else:
        if (larger := max(x.size, y.size) / min(x.size, y.size)) > _SIZES:
            sizes = f"the clouds have root mean square radii {x.size:.3g} and {y.size:.3g}, a factor of {larger:.3g}"
            raise InputError(f"{sizes}; bring both to the same units first, or find the scale too: --scale (scale=True)")
        fit = Fit(x.points, y.points)
        rivals = candidates(shell_moments(x.points, x.weights), shell_moments(y.points, y.weights))
        rotation, open_axis = (fit.best(rivals), False) if network is None else _by_network(network, x, y, at, fit)
        confidence, reason = fit.judge(rotation, rivals)
        if dimensions == 1:
            confidence, reason = 0.0, "the points of a cloud lie on one line: rotations about it change nothing"
        elif open_axis:
            confidence, reason = 0.0, "the network's features all lie on one line and leave the angle open: name another layer"
        if refine:
            rotation, shift = icp(x.points, y.points, rotation, y.size)
        residual = float(fit.squares(rotation, shift).mean().sqrt())
        allowed = _SPACINGS * fit.spacing() + _MISFIT * y.size
        if residual > allowed:
            confidence *= allowed / residual
            causes = "other objects, partial views, or other sizes (--scale)"
            misfit = f"the clouds fit to {residual / y.size:.0%} of their radius only: {causes}"
            reason = "; ".join(filter(None, (reason, misfit)))
    ambiguous, translation = confidence < AMBIGUOUS_BELOW, y.centre + shift - factor * rotation @ x.centre
    # in this order: not every device has float64
    rotation, translation = (value.to(source.dtype).to(source.device) for value in (rotation, translation))
    relative = residual / y.size if y.size else 0.0
    return Alignment(rotation, translation, confidence, ambiguous, reason if ambiguous else "", residual, relative, factor)


def _by_network(network: RevisedModel, x: _Centred, y: _Centred, at: str | None, fit: Fit) -> tuple[Tensor, bool]:
    """The rotation (3, 3) from the features of a network, and whether they leave the angle about an axis open."""
    unit = max(float(cloud.points.norm(dim=-1).max()) for cloud in (x, y))  # networks are trained on the unit sphere
    few = [_Centred(thinned(cloud.points, _MOST_FOR_NETWORKS)) for cloud in (x, y)]
    first, second = (network_moments(network, cloud.points / unit, cloud.weights, at) for cloud in few)
    if len(first.values) > 1:
        return fit.best(candidates(first, second)), False
    weights = reliability(first.noise[0] + second.noise[0])
    rotation, stiffness = rotation_between(to_vectors(first), to_vectors(second), weights)
    return rotation, bool(stiffness[2] <= _FLAT * stiffness[0])


def icp(source: Tensor, target: Tensor, rotation: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """Rotation (3, 3) and translation (3,) between centred clouds (N, 3), (M, 3) by trimesh's ICP, started at a rotation.

    `size` is the unit of length. ICP finds the nearest optimum only, so the start decides.
    """
    start = np.eye(4)
    start[:3, :3] = rotation.numpy()
    clouds, options = ((source / size).numpy(), (target / size).numpy()), {"reflection": False, "scale": False}
    registration = need("trimesh.registration")
    motion, *_ = registration.icp(*clouds, initial=start, threshold=1e-8, max_iterations=_ICP_ITERATIONS, **options)
    found = torch.from_numpy(np.ascontiguousarray(motion))
    return roma.special_procrustes(found[:3, :3]), found[:3, 3] * size


class _Centred:
    """A cloud (N, 3) about its centre, thinned out if it is large, with the share of the surface of each point."""

    def __init__(self, points: Tensor) -> None:
        points = points.detach().cpu().double()
        middle = points.mean(0)
        points = thinned(points - middle, _MOST_POINTS)
        self.weights = area_weights(points)
        offset = centroid(points, self.weights)
        self.centre, self.points = middle + offset, points - offset
        self.size = float(root_mean_square(self.points, self.weights))
        extents = torch.linalg.svdvals(self.points)
        rounding = 1e-12 * float(middle.norm())  # differences of coinciding points far from the origin
        self.dimensions = int((extents > max(_FLAT * float(extents[0]), rounding * len(points))).sum())


def _cloud(points: Any, name: str) -> Tensor:
    """A cloud or a batch of them, checked."""
    try:
        cloud = torch.as_tensor(points)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is a {type(points).__name__}; a tensor of shape (N, 3) is needed") from error
    check_cloud((cloud[None] if cloud.dim() == 2 else cloud).detach().cpu(), name)  # values are read on the CPU only
    return cloud
