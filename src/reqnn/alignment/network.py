"""The quaternion features of a revised network as equivariant features of a whole cloud."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from reqnn.alignment.moments import Moments, moments
from reqnn.errors import InputError
from reqnn.revision.module import RevisedModel
from reqnn.tensor import QuaternionTensor
from reqnn.train.prediction import evaluating

_MOST_CHANNELS = 64  # of per-point features: more add little but time


def load_network(model: nn.Module | str | Path) -> RevisedModel:
    """A revised network, given as such or as a training run."""
    network: object = model
    if isinstance(model, (str, Path)):
        from reqnn.train.run import load_run

        network, advice = load_run(model).model, "train one with --equivariant"
    elif isinstance(model, nn.Module):
        network, advice = getattr(model, "_orig_mod", model), "pass reqnn.revise(model, points), or None"
    else:
        raise InputError(f"model is a {type(model).__name__}; a revised network, a run's folder or None is needed")
    if not isinstance(network, RevisedModel):
        kind = type(network).__name__
        raise InputError(f"the model is an ordinary {kind}, whose features do not rotate with the cloud; {advice}")
    inputs = network.inputs
    if len(inputs.axes) != 1 or inputs.channels[0] != 3 or inputs.ranks[0] not in (2, 3):
        takes = f"{len(inputs.axes)} input(s) with {inputs.channels} channels"
        raise InputError(f"the network takes {takes}; align needs a network that takes the coordinates x, y, z of one cloud")
    return network


def network_moments(network: RevisedModel, points: Tensor, weights: Tensor, at: str | None = None) -> Moments:
    """Equivariant features of a centred cloud (N, 3); each point has a share (N,) of the surface.

    Per-point features are raised to harmonics of several degrees and pooled. Global features are vectors, of degree 1; their
    variance is estimated from two halves of the cloud, every other point by its distance from the centre.
    """
    found = point_features(network, points, at)
    if found.shape[0] > 1:
        found = found[:, :: -(-found.shape[1] // _MOST_CHANNELS)]
        return moments(found, weights if len(weights) == len(found) else found.new_full((len(found),), 1 / len(found)))
    vectors = found[0]
    order = points.norm(dim=-1).argsort()
    try:
        first, second = (point_features(network, points[order[start::2]], at)[0] for start in (0, 1))
        noise = (first - second).square().sum(-1) / 12
    except (ValueError, RuntimeError, IndexError):  # the network does not take half as many points
        noise = torch.ones_like(vectors[:, 0])
    return Moments([vectors[:, [1, 2, 0]]], [noise])  # of degree 1 only


def point_features(network: RevisedModel, points: Tensor, at: str | None = None) -> Tensor:
    """Quaternion features (N, 3) → (P, C, 3) float64 of P points (1 if pooled); for `at` see `features`."""
    axis, rank = network.inputs.axes[0], network.inputs.ranks[0]
    assert axis is not None
    like = next((p for p in network.parameters() if p.is_floating_point()), points)
    cloud = points.to(like.dtype).to(like.device)
    with torch.no_grad(), evaluating(network):
        features = network.features((cloud[None] if rank == 3 else cloud).movedim(-1, axis), at=at)
    if not isinstance(features, QuaternionTensor):
        raise InputError(f"at='{at}' gives real features, which are the same in every orientation; name a submodule before it")
    values = features.imaginary().cpu().double()
    if rank == 3:
        values = values.squeeze(1)
    channels = max((features.channel_axis or 1) - (rank == 3), 0)  # known from the last linear map; else the first
    if values.dim() < 3:
        return values.reshape(3, 1, -1).permute(1, 2, 0)
    return values.movedim(channels + 1, -1).reshape(3, -1, values.shape[channels + 1]).permute(1, 2, 0)
