"""Coordinates seen from the cloud's own PCA frame, for submodules that weigh features by raw coordinates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.nested import map_leaves
from reqnn.tensor.trace import user_frame


def in_principal_frames(x: QuaternionTensor) -> Tensor:
    """Rᵀx for every vector x and PCA frame R of the cloud: real coordinates that no rotation changes.

    Paper, section 3.3, "3D coordinates weighting": the principal axes are the axes of the new coordinate system.

    Shapes:
        x: (B, *) with an axis of vectors → (F·B, *) real, F the number of frames (1, or 4 where signs are averaged over)
    """
    if x.axis is None or set(x.vectors) - {"v", "s"}:
        raise NoRuleError("a submodule of coordinates= is given features, not coordinates; name the one that takes raw xyz")
    frames = x.context.frames().to(x.components.dtype)  # (B, F, 3, 3)
    rows, clouds = x.components.shape[1], frames.shape[0]
    if rows % clouds:
        raise NoRuleError(f"{rows} rows of coordinates do not belong to {clouds} clouds")
    frames = frames.repeat_interleave(rows // clouds, 0)
    rotated = torch.einsum("bfij,ib...->jfb...", frames, x.imaginary()).flatten(1, 2)
    if x.components.shape[0] == 4:
        real = x.components[:1].repeat(1, frames.shape[1], *[1] * (x.rank - 1))
        rotated = torch.cat([real, rotated])
    return x.same(rotated).as_real()


def principal_frame_hook(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """A forward pre-hook that gives a module PCA-frame coordinates in place of raw ones."""

    def convert(value: Any) -> Any:
        if not isinstance(value, QuaternionTensor):
            return value
        if value.context.plan is not None:
            value.context.plan.met("3D coordinates weighting")
        try:
            return in_principal_frames(value)
        except NoRuleError as error:
            raise error.located(type(module).__name__, value.context.names.get(id(module)), user_frame()) from None

    return map_leaves(convert, args), map_leaves(convert, kwargs)


def average_frames_hook(module: nn.Module, args: tuple, output: Tensor) -> Tensor:
    """A forward hook that averages over the four right-handed frames, so that no signs have to be chosen."""
    return output.unflatten(0, (4, -1)).mean(0)
