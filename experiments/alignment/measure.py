"""Measure alignment on copies of a cloud, and on different samplings of one surface, compared with PCA and ICP."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from reqnn import quaternion
from reqnn.alignment.correlation import reliability, rotation_between
from reqnn.alignment.moments import area_weights, centroid, shell_moments, to_vectors
from reqnn.alignment.result import Alignment
from reqnn.alignment.solve import align, icp
from reqnn.alignment.verdict import degrees_between
from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.points import principal_frame

OURS, REFINED, VECTORS, PCA, ICP = "align", "align, refined by ICP", "vectors only (Horn)", "PCA frames", "ICP from identity"
NETWORK = "align, features of an untrained REQNN-DGCNN"

Report = Callable[[str], None]


@dataclass
class Measured:
    """The results of one method.

    Attributes:
        errors: degrees between the estimated rotation and the true one, per shape; NaN if not tried.
        confidence: per shape, if the method gives one.
        seconds: in total.
    """

    errors: Tensor
    confidence: Tensor | None = None
    seconds: float = 0.0


@dataclass
class Experiment:
    """The results for one set of clouds.

    Attributes:
        labels: (S,) the class of each shape.
        classes: class names.
        copies: two copies of the same cloud, the second permuted and rotated.
        samplings: method → results on two samplings without a common point.
        settings: of the experiment.
    """

    labels: Tensor
    classes: tuple[str, ...]
    copies: Measured
    samplings: dict[str, Measured]
    settings: dict[str, object] = field(default_factory=dict)


def run(clouds: PointClouds, seed: int = 0, network: nn.Module | None = None, few: int = 5, say: Report = print) -> Experiment:
    """Measure all methods on all clouds; `network` on at most `few` per class, since it is slow."""
    generator = torch.Generator().manual_seed(seed)
    points = clouds.points.double()
    count, size = points.shape[:2]
    if size < 4:
        raise InputError(f"clouds of {size} points cannot be split in two samplings; 4 or more are needed")
    truth = quaternion.random_matrix(count, generator, torch.float64)
    order = torch.rand(count, size, generator=generator).argsort(1)[..., None].expand(-1, -1, 3)
    shuffled = points.gather(1, order)

    copies = _timed(lambda i: align(None, points[i], shuffled[i] @ truth[i].T), truth, "copies", say)
    first, second = shuffled[:, : size // 2], shuffled[:, size // 2 : size // 2 * 2] @ truth.mT
    found: dict[str, Measured] = {}
    results: dict[int, Alignment] = {}

    def ours(index: int) -> Alignment:
        results[index] = align(None, first[index], second[index])
        return results[index]

    found[OURS] = _timed(ours, truth, OURS, say)
    found[REFINED] = _timed(lambda i: _refined(first[i], second[i], results[i]), truth, REFINED, say)
    found[REFINED].seconds += found[OURS].seconds
    if network is not None:
        chosen = torch.cat([(clouds.labels == label).nonzero()[:few, 0] for label in range(len(clouds.classes))])
        found[NETWORK] = _timed(lambda i: align(network, first[i], second[i]), truth, NETWORK, say, chosen.tolist())
    found[VECTORS] = _timed(lambda i: _by_vectors(first[i], second[i]), truth, VECTORS, say)
    found[PCA] = _timed(lambda i: _by_frames(first[i], second[i]), truth, PCA, say)
    found[ICP] = _timed(lambda i: _by_icp(first[i], second[i]), truth, ICP, say)
    settings = {
        "data": clouds.name,
        "split": clouds.split,
        "shapes": count,
        "points of a copy": size,
        "points of a sampling": size // 2,
        "seed": seed,
        "shapes for the network": few if network is not None else 0,
    }
    return Experiment(clouds.labels, clouds.classes, copies, found, settings)


def _timed(
    way: Callable[[int], Alignment | Tensor], truth: Tensor, name: str, say: Report, chosen: list[int] | None = None
) -> Measured:
    """One method on all shapes, or on the chosen ones."""
    started = time.perf_counter()
    errors, confidence = torch.full((len(truth),), torch.nan), torch.full((len(truth),), torch.nan)
    for index in range(len(truth)) if chosen is None else chosen:
        result = way(index)
        rotation = result.rotation if isinstance(result, Alignment) else result
        errors[index] = degrees_between(rotation, truth[index])
        if isinstance(result, Alignment):
            confidence[index] = float(result.confidence)
    seconds = time.perf_counter() - started
    say(f"{name}: median {float(errors.nanmedian()):.3g}° in {seconds:.0f} s")
    return Measured(errors, None if bool(confidence.isnan().all()) else confidence, seconds)


def _refined(source: Tensor, target: Tensor, found: Alignment) -> Alignment:
    """As `align` with refine=True, from the rotation that is already known."""
    pair = [cloud - centroid(cloud, area_weights(cloud)) for cloud in (source, target)]
    rotation, _ = icp(pair[0], pair[1], found.rotation, 1.0)
    return replace(found, rotation=rotation)


def _by_vectors(source: Tensor, target: Tensor) -> Tensor:
    """Horn's closed form on the features of degree 1."""
    pair = []
    for cloud in (source, target):
        weights = area_weights(cloud)
        pair.append(shell_moments(cloud - centroid(cloud, weights), weights, degrees=1))
    weights = reliability(pair[0].noise[0] + pair[1].noise[0])
    return rotation_between(to_vectors(pair[0]), to_vectors(pair[1]), weights)[0]


def _by_frames(source: Tensor, target: Tensor) -> Tensor:
    """Principal axes, with signs by third moments (`reqnn.points.principal_frame`)."""
    frames = principal_frame(torch.stack([source - source.mean(0), target - target.mean(0)]))
    return frames[1] @ frames[0].T


def _by_icp(source: Tensor, target: Tensor) -> Tensor:
    """ICP from the identity, centroid on centroid."""
    identity = torch.eye(3, dtype=torch.float64)
    return icp(source - source.mean(0), target - target.mean(0), identity, 1.0)[0]
