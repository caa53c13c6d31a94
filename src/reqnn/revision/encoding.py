"""What a revised network knows about a cloud, split into what does not change and what moves with it (SIM(3)).

x → s·R·x + t:   invariant → invariant,   vectors → R·vectors,   center → s·R·center + t,   scale → s·scale
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.points.outliers import without_outliers
from reqnn.revision.features import take_features
from reqnn.revision.inputs import Inputs, cloud_of, is_numbers
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.running import in_this_thread


class Normalised(NamedTuple):
    """Inputs about the centroid of their cloud, in the unit sphere; center (B, 3) and scale (B,) undo it."""

    args: tuple[Any, ...]
    center: Tensor
    scale: Tensor


def predict(net: Any, args: tuple[Any, ...], kwargs: dict[str, Any], robust: bool) -> Any:
    """What `RevisedModel.predict` returns."""
    like = next((p for p in net.parameters() if p.is_floating_point()), args[0])
    given = tuple(x.to(like.device, torch.float64) if is_numbers(x) else x for x in args)
    if robust:
        first, axis = net.inputs.first
        calm = without_outliers(cloud_of(given[first], axis)).reshape(given[first].movedim(axis, -1)[..., :3].shape)
        given = net.inputs.with_points(given, lambda points: calm[..., None, :])
    near = normalise_inputs(net.inputs, given).args
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        with torch.no_grad():
            return net(*(x.to(like.dtype) if is_numbers(x) else x for x in near), **kwargs)
    finally:
        for module, mode in modes.items():
            module.training = mode


def normalise_inputs(inputs: Inputs, args: tuple[Any, ...]) -> Normalised:
    """Centre and scale the coordinates of the first cloud, as `reqnn.data` does; normals and scalars stay as they are."""
    first, axis = inputs.first
    rank = args[first].dim() if isinstance(args[first], Tensor) else None
    if rank != inputs.ranks[first]:
        given = type(args[first]).__name__ if rank is None else f"shape {tuple(args[first].shape)}"
        raise InputError(f"points: {given}; a tensor of {inputs.ranks[first]} axes is needed, as the network was revised for")
    xyz = cloud_of(args[first], axis)
    center = xyz.mean(1)
    center = center + (xyz - center[:, None]).mean(1)  # far from the origin the rounding of a mean is above that of x - c
    scale = torch.linalg.vector_norm(xyz - center[:, None], dim=-1).amax(1)
    scale = torch.where(scale > 0, scale, 1.0)
    ones = [1] * (args[first].dim() - 1)
    return Normalised(
        inputs.with_points(args, lambda points: (points - center.reshape(-1, *ones, 3)) / scale.reshape(-1, *ones, 1)),
        center,
        scale,
    )


def encode(net: Any, at: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
    """What `RevisedModel.encode` returns."""
    near, center, scale = normalise_inputs(net.inputs, args)
    features = take_features(net, at, near, kwargs)
    if not isinstance(features, QuaternionTensor):
        raise InputError(f"at='{at}' gives real features, which do not rotate; name a submodule before it")
    vectors = _pooled(features, len(center))
    invariant = head_inputs(net, near, kwargs)
    if invariant is None or isinstance(invariant, QuaternionTensor):
        invariant = torch.linalg.vector_norm(vectors, dim=-1)
    return {"invariant": invariant, "vectors": vectors, "center": center, "scale": scale}


def head_inputs(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """What the last `Linear` of a pass is given, in (B, C), the mean over several calls; None if there is no such layer."""
    kept: dict[int, list[Tensor]] = {}

    def keep(module: nn.Module, given: tuple[Any, ...]) -> None:
        kept.setdefault(id(module), []).append(given[0])

    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    # after the hook that makes features real
    handles = [layer.register_forward_pre_hook(in_this_thread(keep)) for layer in layers]
    try:
        net(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    calls = next((value for value in reversed(list(kept.values())) if value[0].dim() == 2), None)
    return None if calls is None else calls[0] if len(calls) == 1 else torch.stack(calls).mean(0)


def _pooled(features: QuaternionTensor, clouds: int) -> Tensor:
    """Vectors (B, C, 3): the mean over the points where features belong to single points."""
    values = features.imaginary().movedim(0, -1)
    if features.shape[:1] != (clouds,):  # one cloud without a batch axis
        values, known = values[None], None if features.channel_axis is None else features.channel_axis + 1
    else:
        known = features.channel_axis
    values = values.movedim(1 if known is None else known, 1)
    return values.flatten(2, -2).mean(2) if values.dim() > 3 else values
