"""Choose between candidate rotations by how well they fit the clouds, with a confidence.

A symmetric object has several candidates. Each is judged by the distance of every point to the other cloud. The differences of
two candidates, point by point, have a mean and a standard error; their ratio z says whether one of them really fits better.
"""

from __future__ import annotations

import math

import numpy as np
import roma
import torch
from torch import Tensor

from reqnn import quaternion
from reqnn.alignment.result import AMBIGUOUS_BELOW
from reqnn.extras import need

_APART = 20.0  # degrees: closer rotations count as the same
_SCALE = 2.0  # confidence = 1 − exp(−z / 2) matches the share of correct answers (docs/align.md)
_MOST_QUERIES = 2048


class Fit:
    """How well rotations bring one centred cloud (N, 3) onto another (M, 3)."""

    def __init__(self, source: Tensor, target: Tensor) -> None:
        self.source, self.target = thinned(source, _MOST_QUERIES), thinned(target, _MOST_QUERIES)
        tree = need("scipy.spatial").cKDTree
        self._trees = tree(source.numpy()), tree(target.numpy())
        self._known: dict[tuple[bytes, bytes], Tensor] = {}  # candidates are evaluated twice: to choose one, and to judge it

    def squares(self, rotation: Tensor, shift: Tensor | float = 0.0) -> Tensor:
        """Squared distances to the nearest point, from each cloud to the other, (n + m,)."""
        key = (rotation.numpy().tobytes(), torch.as_tensor(shift).numpy().tobytes())
        if key not in self._known:
            there = self._trees[1].query((self.source @ rotation.T + shift).numpy())[0]
            back = self._trees[0].query(((self.target - shift) @ rotation).numpy())[0]
            self._known[key] = torch.from_numpy(np.concatenate([there, back])).square()
        return self._known[key]

    def spacing(self) -> float:
        """Root mean square distance from a point to the next one of its own cloud; of the sparser cloud."""
        found = zip(self._trees, (self.source, self.target), strict=True)
        distances = [tree.query(points.numpy(), 2)[0][:, 1] for tree, points in found]
        return max(float(np.sqrt(np.square(d[np.isfinite(d)]).mean())) if np.isfinite(d).any() else 0.0 for d in distances)

    def best(self, rotations: Tensor) -> Tensor:
        """The one of some rotations (R, 3, 3) that fits best."""
        return rotations[int(torch.stack([self.squares(r).mean() for r in rotations]).argmin())]

    def judge(self, rotation: Tensor, rivals: Tensor) -> tuple[float, str]:
        """The confidence in a rotation against other candidates (R, 3, 3), and what makes it ambiguous."""
        own, equals, confidence = self.squares(rotation), [], 1.0
        for rival in rivals[degrees_between(rivals, rotation) > _APART]:
            worse = self.squares(rival) - own
            z = float(worse.mean() * math.sqrt(len(worse)) / worse.std(correction=0))  # infinite or NaN if all are equal
            sure = -math.expm1(-z / _SCALE) if worse.mean() > 0 else 0.0
            confidence = min(confidence, sure)
            if sure < AMBIGUOUS_BELOW:
                equals.append(rival @ rotation.T)
        return confidence, _reason(torch.stack(equals)) if equals else ""


def degrees_between(rotations: Tensor, rotation: Tensor) -> Tensor:
    """The angle of Rᵢ R⁻¹ in degrees, (..., 3, 3), (..., 3, 3) → (...); accurate for small angles too."""
    return torch.rad2deg(roma.rotmat_geodesic_distance(rotations, rotation))


def _reason(symmetries: Tensor) -> str:
    """In words: the rotations (R, 3, 3) of the target after which it fits about as well."""
    axes, angles = quaternion.to_axis_angle(quaternion.from_matrix(symmetries))
    shared = (axes @ axes.T).abs() > 0.9
    first = int(shared.sum(1).argmax())
    about = torch.rad2deg(angles[shared[first]]).round().int().tolist()
    listed = "any angle" if len(about) > 3 else ", ".join(f"{angle}°" for angle in sorted(set(about)))
    others = f", and in {len(axes) - len(about)} other orientations" if len(about) < min(len(axes), 4) else ""
    axis = "({:.2f}, {:.2f}, {:.2f})".format(*axes[first].tolist())
    return f"rotated by {listed} about the axis {axis}{others} the object fits about as well"


def thinned(points: Tensor, most: int) -> Tensor:
    """At most `most` points of a centred cloud: every k-th by distance from the centre."""
    step = -(-len(points) // most)
    return points if step == 1 else points[points.norm(dim=-1).argsort()][::step]
