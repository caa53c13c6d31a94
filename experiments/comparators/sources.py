"""Where the errors of PRIN and of the QE-Capsule network arise: each step by itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from experiments.comparators.change import change, relative, rotated, rotations, settled
from reqnn import quaternion
from reqnn.models import PRIN, QECapsule
from reqnn.models.prin import spherical_grid
from reqnn.models.qe_capsule import local_reference_frames
from reqnn.models.so3 import quadrature_weights, wigner_d


def rotate_spectrum(spectrum: Tensor, rotation: Tensor) -> Tensor:
    """The spectrum (B, C, b, b, 1) of signals on the sphere after a rotation (3, 3): X^l → D^l X^l, exact."""
    alpha, beta, gamma = Rotation.from_matrix(rotation.numpy()).as_euler("ZYZ")
    out = torch.zeros_like(spectrum)
    for degree in range(spectrum.shape[2]):
        m = torch.arange(-degree, degree + 1)
        d = wigner_d(degree, torch.tensor([beta], dtype=torch.float64))[0]
        matrix = torch.exp(-1j * m * alpha)[:, None] * d * torch.exp(-1j * m * gamma)
        half = spectrum[:, :, degree, : degree + 1, 0]  # m ≥ 0; the signal is real
        negative = (half.conj() * (-1.0) ** torch.arange(degree + 1))[..., 1:].flip(-1)
        out[:, :, degree, : degree + 1, 0] = (torch.cat([negative, half], -1) @ matrix.T)[..., degree:]
    return out


def prin_errors(points: Tensor, bandwidth: int, count: int = 4) -> dict[str, Any]:
    """Changes of PRIN's pooled features: signal or points rotated, features by an exact mean over SO(3) or by the maximum."""
    torch.manual_seed(0)
    net, b = PRIN(width=0.25, bandwidth=bandwidth, shells=16), bandwidth
    settled(net, points)
    kept: list[Tensor] = []
    net.bns[2].register_forward_hook(lambda module, inputs, output: kept.append(torch.relu(output)))
    weights = quadrature_weights(b) / quadrature_weights(b).sum()

    def features(spectrum: Tensor) -> dict[str, Tensor]:
        net.classify(spectrum)
        means = kept.pop().mean(4)
        return {"mean": (means.mean(3) * weights).sum(2), "max": means.amax((2, 3))}

    def spectrum(points: Tensor) -> Tensor:
        return net.transform.sphere(spherical_grid(points, b, 16))

    z = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    angle = torch.tensor(2 * math.pi / (2 * b), dtype=torch.float64)
    step = quaternion.to_matrix(quaternion.from_axis_angle(z, angle))
    drawn = rotations(count)
    with torch.no_grad():
        reference = features(spectrum(points))
        cases = {
            "step": [features(spectrum(points @ step.T))],
            "signal": [features(rotate_spectrum(spectrum(points), matrix)) for matrix in drawn],
            "points": [features(spectrum(points @ matrix.T)) for matrix in drawn],
        }
    found = {
        f"{case}, {pool}": relative(torch.stack([out[pool] for out in outs]) - reference[pool], reference[pool])
        for case, outs in cases.items()
        for pool in ("mean", "max")
    }
    return {"bandwidth": bandwidth, **found, "points, logits": change(net, points, rotated(drawn))}


def capsule_errors(points: Tensor, dtype: torch.dtype, neighbours: int, count: int = 2) -> dict[str, Any]:
    """Changes of QE-Capsule's logits: frames that are rotated with the points, and frames estimated from the rotated points."""
    torch.manual_seed(0)
    net = QECapsule(width=0.25, npoint=48, neighbours=neighbours).eval().to(dtype)
    points, drawn = points.to(dtype), rotations(count)
    frames = local_reference_frames(points, neighbours)
    moves, angles = [], []
    with torch.no_grad():
        reference = net(points, frames).double()
        for matrix in drawn:
            turn = matrix.to(dtype)
            moves.append(net(points @ turn.T, turn @ frames).double() - reference)
            cosine = ((turn @ frames) * local_reference_frames(points @ turn.T, neighbours)).sum((-2, -1))
            angles.append((cosine.double() - 1).div(2).clamp(-1, 1).acos().rad2deg())
    changed = torch.stack(angles) > 1
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "neighbours": neighbours,
        "given frames": relative(torch.stack(moves), reference),
        "estimated frames": change(lambda x: net(x).double(), points, rotated(drawn)),
        "frames that change": changed.double().mean().item(),
        "shapes with such frames": changed.any(-1).double().mean().item(),
    }
