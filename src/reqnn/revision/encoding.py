"""What a revised network knows about a cloud, split into what does not change and what moves with it (SIM(3)).

x → s·R·x + t:   invariant → invariant,   vectors → R·vectors,   center → s·R·center + t,   scale → s·scale
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.points.outliers import without_outliers
from reqnn.revision.features import Place, find_place, take_features
from reqnn.revision.inputs import Inputs, cloud_of, is_numbers, members_of
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
    first, axis = net.inputs.first
    given = tuple(
        x.to(like.device, torch.float64) if is_numbers(x) or (i == first and isinstance(x, Tensor)) else x
        for i, x in enumerate(args)
    )
    if robust:
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
    if args[first].numel() == 0:
        raise InputError(f"points: shape {tuple(args[first].shape)}: it is empty; at least one cloud with one point is needed")
    xyz, members = cloud_of(args[first], axis), _members(inputs, args)
    clouds = [xyz] if members is None else [xyz[:, members == cloud] for cloud in range(int(members.max()) + 1)]
    centers, scales = zip(*map(_center_and_scale, clouds), strict=True)
    center, scale = torch.cat(centers), torch.cat(scales)
    ones, of = [1] * (args[first].dim() - 1), slice(None) if members is None else members
    return Normalised(
        inputs.with_points(args, lambda points: (points - center[of].reshape(-1, *ones, 3)) / scale[of].reshape(-1, *ones, 1)),
        center,
        scale,
    )


def _members(inputs: Inputs, args: tuple[Any, ...]) -> Tensor | None:
    """Which cloud each point belongs to, if clouds lie one behind the other in a list."""
    first, axis = inputs.first
    return members_of(args, cloud_of(args[first], axis).shape[1]) if args[first].dim() == 2 else None


def _center_and_scale(xyz: Tensor) -> tuple[Tensor, Tensor]:
    """The centroids (B, 3) of clouds (B, N, 3), and the distances (B,) of their farthest points."""
    center = xyz.mean(1)
    center = center + (xyz - center[:, None]).mean(1)  # far from the origin the rounding of a mean is above that of x - c
    around = xyz - center[:, None]
    size = around.abs().amax((1, 2))  # squares of any coordinates are numbers then
    size = torch.where(size > 0, size, 1.0)
    scale = size * torch.linalg.vector_norm(around / size[:, None, None], dim=-1).amax(1)
    return center, torch.where(scale > 0, scale, 1.0)


def encode(net: Any, at: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
    """What `RevisedModel.encode` returns."""
    near, center, scale = normalise_inputs(net.inputs, args)
    features = take_features(net, at, near, kwargs)
    if not isinstance(features, QuaternionTensor):
        given = "the network" if at is None else f"at='{at}'"
        raise InputError(f"{given} gives real features, which do not rotate; name a submodule before it with at=")
    place = find_place(net, at)
    if place.before and features.axis is not None:
        raise InputError(
            f"features become real before '{place.name}', where they are coordinates still: the mean over the points says "
            "nothing; name a submodule that gives quaternion features with at=, or revise with a later to_real="
        )
    members = _members(net.inputs, near)
    vectors = _pooled(features, len(center), _channel_axis(features, place), members)
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


def _channel_axis(features: QuaternionTensor, place: Place) -> int:
    """The axis of the channels: that of the coordinates, or as the layer at this place has it."""
    if features.axis is not None:
        return features.axis
    layer = place.module
    while isinstance(layer, nn.Sequential) and len(layer):
        layer = layer[0 if place.before else -1]
    if isinstance(layer, nn.Linear) or features.rank <= 2:
        return features.rank - 1
    spatial = next((n for n in (1, 2, 3) if type(layer).__name__ in (f"Conv{n}d", f"ConvTranspose{n}d")), None)
    if spatial is not None:
        return features.rank - spatial - 1
    if features.channel_axis is None:
        raise InputError(
            f"which axis of the features {tuple(features.shape)} holds the channels is not known at {place}: name a Linear or "
            "a convolution with at="
        )
    return features.channel_axis


def _pooled(features: QuaternionTensor, clouds: int, channels: int, members: Tensor | None) -> Tensor:
    """Vectors (B, C, 3): the mean over the points where features belong to single points."""
    values = features.imaginary().movedim(0, -1).movedim(channels, -2)
    if members is not None and len(values) != clouds:
        if len(values) != len(members) or values.dim() != 3:
            raise InputError(f"features of shape {tuple(features.shape)} belong to neither clouds nor points: name another at=")
        return torch.stack([values[members == cloud].mean(0) for cloud in range(clouds)])
    if values.shape[0] != clouds or values.dim() < 3:
        if clouds > 1:
            raise InputError(
                f"the first axis of features of shape {tuple(features.shape)} does not count the {clouds} clouds: encode them "
                "one by one, or name another submodule with at="
            )
        values = values[None]  # one cloud, without a batch axis or with its groups there
    return values.flatten(1, -3).mean(1) if values.dim() > 3 else values
