"""How much an output changes when the cloud is transformed, in units of how much it differs between shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from reqnn import quaternion

EXACT, APPROXIMATE = 1e-9, 0.5
Function = Callable[[Tensor], Tensor]


def shapes_to_audit(count: int, points: int = 512) -> tuple[Tensor, str]:
    """Test shapes of as many classes, (count, points, 3) float64, and the name of the data set."""
    from reqnn import data
    from reqnn.errors import InputError

    try:
        clouds = data.load("modelnet40", "test", points=points)
    except InputError:
        clouds = data.load("scanned", "test", points=points)
    first = [int((clouds.labels == label).nonzero()[0]) for label in clouds.labels.unique()]
    return clouds.points[first[:count]].double(), clouds.name


def rotations(count: int, seed: int = 0) -> list[Tensor]:
    """Random rotation matrices."""
    return list(quaternion.random_matrix(count, torch.Generator().manual_seed(seed), torch.float64))


def rotated(matrices: Sequence[Tensor]) -> list[Function]:
    """Functions that rotate clouds (B, N, 3)."""
    return [partial(_rotate, matrix) for matrix in matrices]


def reordered(count: int, points: int) -> list[Function]:
    """Functions that reorder the points of clouds (B, N, 3)."""
    generator = torch.Generator().manual_seed(0)
    return [partial(_reorder, torch.randperm(points, generator=generator)) for _ in range(count)]


def moved(count: int, by: float = 0.1) -> list[Function]:
    """Functions that move clouds (B, N, 3)."""
    return [partial(torch.add, by * matrix[0]) for matrix in rotations(count)]


def _rotate(matrix: Tensor, points: Tensor) -> Tensor:
    return points @ matrix.to(points.dtype).T


def _reorder(order: Tensor, points: Tensor) -> Tensor:
    return points[:, order]


@torch.no_grad()
def change(outputs: Function, points: Tensor, transformed: Sequence[Function]) -> float:
    """√(mean ‖f(Tx) − f(x)‖² / mean ‖f(x) − f(y)‖²) over transformations T and shapes x ≠ y: 1 if f forgets the shape."""
    reference = outputs(points)
    moves = torch.stack([outputs(transform(points)) for transform in transformed]) - reference
    return relative(moves, reference)


def relative(moves: Tensor, reference: Tensor) -> float:
    """The same, of changes (T, S, C) and outputs (S, C)."""
    between = (reference[:, None] - reference).square().sum(-1).sum() / (len(reference) * (len(reference) - 1))
    return (moves.square().sum(-1).mean() / between).sqrt().item()


def verdict(value: float) -> str:
    """exact, approximate or broken."""
    return "exact" if value <= EXACT else "approximate" if value <= APPROXIMATE else "broken"


def settled(net: nn.Module, points: Tensor) -> nn.Module:
    """The network in float64 and eval mode, its statistics those of these clouds."""
    from reqnn.train.prediction import recalibrate

    net = net.double()
    recalibrate(net, [points])
    return net.eval()
