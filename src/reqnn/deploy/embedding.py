"""`embed`: clouds as points of a space in which no rotation moves them, for retrieval, clustering and small classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.points import CloudBatch, collate, inliers
from reqnn.pretrained import cloud_in_any_pose, find_files, load
from reqnn.revision.encoding import head_inputs, normalise_inputs
from reqnn.revision.inputs import Inputs
from reqnn.train.prediction import evaluating

DEFAULT = "dgcnn.full.modelnet40"
POINTS = 1024
_CLOUD = Inputs((2,), (3,), 0, (3,))


def embed(
    source: Tensor | CloudBatch | str | Path | Sequence[Any],
    network: str | Path | nn.Module = DEFAULT,
    *,
    points: int | None = None,
    batch: int = 16,
    seed: int = 0,
) -> Tensor:
    """Embeddings (n, d), rotation-invariant if the network is: what its last Linear is given. Compare them by their cosine.

    Args:
        source: clouds (n, N, 3), a list of clouds (N, 3) of any sizes, or `reqnn.collate` of it; or files and folders, as
            `reqnn predict` takes them.
        network: a name or run for `reqnn.load`, or a network that takes (B, N, 3).
        points: to sample per file; default: as in training.
        batch: clouds in a pass.
        seed: of the choice of points in files.
    """
    return _each(source, network, points, batch, seed, robust=False, answer=_embedded)


def predict(
    source: Tensor | str | Path | Sequence[Any],
    network: str | Path | nn.Module = DEFAULT,
    *,
    points: int | None = None,
    batch: int = 16,
    seed: int = 0,
    robust: bool = False,
) -> Tensor:
    """Logits (n, classes) of clouds in any place and of any size: each is centred and scaled to the unit sphere in float64.

    Arguments are those of `embed`. Column i belongs to `network.classes[i]` of a loaded network.

    Args:
        robust: leave out points farther than 4 median distances from the centre first (`reqnn.points.inliers`): one stray
            point may otherwise shrink all others into the centre.
    """
    return _each(source, network, points, batch, seed, robust, lambda net, near: net(near).cpu())


def _each(
    source: Any, network: Any, points: int | None, batch: int, seed: int, robust: bool, answer: Callable[[Any, Tensor], Tensor]
) -> Tensor:
    """What the network answers to each normalised cloud, clouds of one size together."""
    net = load(network) if isinstance(network, (str, Path)) else network
    count = points or getattr(net, "card", {}).get("points", POINTS)
    like = next(p for p in net.parameters() if p.is_floating_point())
    ready = isinstance(source, CloudBatch) and not robust
    clouds = source if ready else collate(_clouds(source, count, seed, robust))
    if clouds.points.shape[-1] != 3:
        raise InputError(f"clouds have {clouds.points.shape[-1]} columns; (N, 3) is needed: x, y, z")

    def answers(part: Tensor) -> Tensor:
        with evaluating(net), torch.no_grad():
            return answer(net, normalise_inputs(_CLOUD, (part.double(),)).args[0].to(like))

    rows: Tensor = clouds.map(answers, batch)
    return rows


def _clouds(source: Any, points: int, seed: int, robust: bool) -> Sequence[Any]:
    items = [source] if isinstance(source, (str, Path)) else source
    if not isinstance(items, Tensor) and all(isinstance(item, (str, Path)) for item in items):
        return [cloud_in_any_pose(file, points, seed, robust=robust) for file in find_files(items)]
    return [cloud[inliers(cloud[None])[0]] for cloud in map(torch.as_tensor, items)] if robust else list(items)


def _embedded(net: nn.Module, near: Tensor) -> Tensor:
    """Normalised (B, N, 3) → (B, d) on the CPU."""
    found = head_inputs(net, (near,), {})
    if found is None or found.shape[0] != len(near):
        raise InputError("the network has no Linear on (B, C) features, whose input could be the embedding: see net.encode")
    return found.cpu()
