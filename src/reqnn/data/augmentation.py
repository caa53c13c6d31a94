"""Training augmentations: pure functions of clouds (B, N, 3) and a random generator, and `Augmentation`, which composes them.

Numbers are drawn on the generator's device, so that a CPU generator gives the same augmentation on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from reqnn.data.rotation import check_protocol, rotate
from reqnn.errors import InputError

Random = torch.Generator | None


@dataclass(frozen=True)
class Augmentation:
    """Rotation, scale, stretch, jitter, dropout and shuffling; the default changes nothing.

    Args:
        scale: bounds (low, high) of a uniform factor per cloud.
        jitter: standard deviation of the noise on each coordinate.
        clip: the noise is clipped at ±clip.
        dropout: largest share of points to drop; the share is uniform between 0 and this.
        rotation: the protocol, "NR", "y", "z" or "AR".
        shuffle: whether to shuffle the points.
        stretch: bounds (low, high) of a uniform factor per cloud and axis.
    """

    scale: tuple[float, float] = (1.0, 1.0)
    jitter: float = 0.0
    dropout: float = 0.0
    rotation: str = "NR"
    clip: float = 0.05
    shuffle: bool = False
    stretch: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        check_protocol(self.rotation)
        for name, (low, high) in (("scale", self.scale), ("stretch", self.stretch)):
            if not 0 < low <= high < math.inf:
                raise InputError(f"{name} is {(low, high)}; bounds 0 < low <= high are needed, such as (0.8, 1.25)")
        if not (0 <= self.jitter < math.inf and 0 <= self.clip < math.inf):
            raise InputError(f"jitter is {self.jitter} and clip {self.clip}; neither can be negative")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {self.dropout}; a share of the points is needed, at least 0 and below 1")

    def __call__(self, points: Tensor, generator: Random = None) -> Tensor:
        """Augment each cloud independently: (B, N, 3) -> (B, N, 3)."""
        if self.rotation != "NR":
            points, _ = rotate(points, self.rotation, generator)
        if self.scale != (1.0, 1.0):
            points = random_scale(points, generator, *self.scale)
        if self.stretch != (1.0, 1.0):
            points = random_scale(points, generator, *self.stretch, axes=3)
        if self.jitter:
            points = jitter(points, generator, self.jitter, self.clip)
        if self.dropout:
            points = point_dropout(points, generator, self.dropout)
        return shuffle(points, generator) if self.shuffle else points


def random_scale(points: Tensor, generator: Random, low: float = 0.8, high: float = 1.25, axes: int = 1) -> Tensor:
    """Scale each cloud, or with axes=3 each axis of it, by a factor uniform between low and high: (B, N, 3) -> (B, N, 3)."""
    factor = low + (high - low) * _uniform(generator, len(points), 1, axes)
    return points * factor.to(points.dtype).to(points.device)


def jitter(points: Tensor, generator: Random, sigma: float = 0.01, clip: float = 0.05) -> Tensor:
    """Add normal noise of standard deviation sigma, clipped at ±clip: (B, N, 3) -> (B, N, 3)."""
    place = None if generator is None else generator.device
    noise = torch.randn(points.shape, generator=generator, device=place, dtype=points.dtype).to(points.device)
    return points + (sigma * noise).clamp(-clip, clip)


def point_dropout(points: Tensor, generator: Random, largest: float = 0.875) -> Tensor:
    """Drop a random share of each cloud, uniform between 0 and `largest`: (B, N, 3) -> (B, N, 3).

    As in PointNet++, dropped points move onto the first one that is kept. At least one point is kept.
    """
    batch, count = points.shape[:2]
    if count == 0:
        return points
    share, draw = largest * _uniform(generator, batch, 1), _uniform(generator, batch, count)
    kept = ((draw >= share) | (draw == draw.amax(1, keepdim=True))).to(points.device)
    first = kept.int().argmax(1)  # the first of the largest
    anchor = points[torch.arange(batch, device=points.device), first].unsqueeze(1)
    return torch.where(kept.unsqueeze(-1), points, anchor)


def random_subset(points: Tensor, generator: Random, keep: int) -> Tensor:
    """`keep` random points of each cloud, in random order: (B, N, C) -> (B, keep, C)."""
    if not 1 <= keep <= points.shape[1]:
        raise InputError(f"keep is {keep}; clouds of {points.shape[1]} points allow 1 to {points.shape[1]}")
    order = _uniform(generator, *points.shape[:2]).argsort(dim=1, stable=True)[:, :keep]
    return points.gather(1, order.unsqueeze(-1).expand(-1, -1, points.shape[-1]).to(points.device))


def shuffle(points: Tensor, generator: Random) -> Tensor:
    """Shuffle the points of each cloud: (B, N, 3) -> (B, N, 3)."""
    return random_subset(points, generator, points.shape[1]) if points.shape[1] else points


def _uniform(generator: Random, *shape: int) -> Tensor:
    """Numbers uniform on [0, 1) in float64, where ties are rare, on the generator's device."""
    place = None if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=place, dtype=torch.float64)
