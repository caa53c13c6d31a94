"""`embed`: clouds as points of a space in which no rotation moves them, for retrieval, clustering and small classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.points import CloudBatch, collate
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
    net = load(network) if isinstance(network, (str, Path)) else network
    count = points or getattr(net, "card", {}).get("points", POINTS)
    clouds = source if isinstance(source, CloudBatch) else collate(_clouds(source, count, seed))
    if clouds.points.shape[-1] != 3:
        raise InputError(f"clouds have {clouds.points.shape[-1]} columns; (N, 3) is needed: x, y, z")
    rows: Tensor = clouds.map(lambda part: _embedded(net, part), batch)
    return rows


def _clouds(source: Any, points: int, seed: int) -> Sequence[Any]:
    items = [source] if isinstance(source, (str, Path)) else source
    if not isinstance(items, Tensor) and all(isinstance(item, (str, Path)) for item in items):
        return [cloud_in_any_pose(file, points, seed) for file in find_files(items)]
    return list(items)


@torch.no_grad()
def _embedded(net: nn.Module, clouds: Tensor) -> Tensor:
    """(B, N, 3) anywhere and of any size → (B, d) on the CPU."""
    like = next(p for p in net.parameters() if p.is_floating_point())
    near = normalise_inputs(_CLOUD, (clouds.double(),)).args[0].to(like)
    with evaluating(net):
        found = head_inputs(net, (near,), {})
    if found is None or found.shape[0] != len(clouds):
        raise InputError("the network has no Linear on (B, C) features, whose input could be the embedding: see net.encode")
    return found.cpu()
