"""Table 1, "Convolution": Conv(f) = w ⊗ f with real w; the bias b goes (paper, section 3.3; proof in appendix C.1).

    w ⊗ (a·i + b·j + c·k) = (w ⊗ a)·i + (w ⊗ b)·j + (w ⊗ c)·k

All three imaginary parts share the real parameter w, so a convolution is the ordinary one on a batch of 3·B. Where
declared scalars s come in beside vectors v (extension), their weights open or close the result: (w ⊗ v)·(1 + w ⊗ s).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.kernels.products import times
from reqnn.kernels.rows import from_rows
from reqnn.nn.quaternion_to_real import to_real
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay
from reqnn.tensor.running import owner_of_call


@paper.rule("linear", row="Convolution")
def linear(x: Q, weight: Tensor, bias: Tensor | None = None) -> Any:
    """w·f along the last axis, or, at the first Linear on (B, C) features, Quaternion2Real and the ordinary Linear."""
    if not isinstance(x, Q) or isinstance(weight, Q):
        raise NoRuleError("quaternion features are used as the weight of a linear map")
    if stands_at_head(x):
        real = to_real(x)
        return F.linear(real, x.context.widen(weight, real.shape[-1]), bias)
    refuse_elsewhere(x, x.rank - 1)
    layout = x.layout_on(-1)
    weight = x.context.fit(weight, 1, layout)
    x.context.drop_bias(bias)
    return gated(x, lambda parts: pointwise(parts, weight, x.rank - 1), x.rank - 1)


def pointwise(parts: Tensor, weight: Tensor, channels: int) -> Tensor:
    """w·f along one axis as one matrix product; in memory, the parts of all channels of a place then lie side by side.

    That is how the layers behind it like them (`reqnn.kernels.rows`), and float64 has no fast convolution.

    Shapes: parts (3, *) with C on logical axis `channels`, weight (O, C) → (3, *) with O there
    """
    return from_rows(times(parts.movedim((0, channels + 1), (-2, -1)), weight), channels)


def is_pointwise(weight: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a convolution has a kernel of size 1, and steps from place to place."""
    given = {**dict(zip(("stride", "padding", "dilation", "groups"), args, strict=False)), **kwargs}

    def all_are(name: str, number: int) -> bool:
        value = given.get(name, number)
        return all(v == number for v in value) if isinstance(value, (tuple, list)) else value == number

    unpadded = all_are("padding", 0) or given.get("padding") in ("valid", "same")
    return weight.shape[2:].numel() == 1 and all_are("stride", 1) and unpadded and all_are("groups", 1)


def stands_at_head(x: Q) -> bool:
    """Whether Quaternion2Real belongs here: features of whole clouds, one row a cloud (paper, section 3.5)."""
    context = x.context
    if not context.auto_real or (x.axis is not None and x.holds_vectors(x.axis)):
        return False
    head = x.rank == 1 if context.batch is None else x.rank == 2 and x.stored_shape[1] == context.batch
    if head and context.plan is not None:
        context.plan.met_head()
    return head


def refuse_elsewhere(x: Q, channels: int) -> None:
    """The coordinates must lie on the axis that the layer mixes."""
    if x.axis is not None and x.axis != channels and x.holds_vectors(x.axis):
        raise NoRuleError(
            f"the layer mixes axis {channels}, but the coordinates x, y, z lie on axis {x.axis}: each coordinate would be "
            "treated by itself (is the input transposed, or vector_axis wrong?)"
        )


def gated(x: Q, layer: Callable[[Tensor], Tensor], channels: int) -> Q:
    """Apply a bias-free map to the imaginary parts; scalars, where there are any, gate its result."""
    if x.components.shape[0] == 3:
        out = x.like(layer(x.components))
    else:
        if x.context.strict:
            raise NoRuleError("scalars beside vectors go beyond the paper, and strict=True refuses that")
        out = x.like(layer(x.components[1:]) * (1 + layer(x.components[:1])))
    out.channel_axis = channels
    return out


Layer = Callable[..., Tensor]
"""Components (n, *), a weight and, if they are others than the original's, groups → components, by a map without bias."""


def convolution_of(x: Q, weight: Tensor, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Layer, int]:
    """A call of one of `CONVOLUTIONS` on quaternions: its weight, re-sized in the dry run, its map, its channel axis."""
    if not isinstance(x, Q) or isinstance(weight, Q):
        raise NoRuleError("quaternion features are used as the kernel of a convolution")
    spatial, transposed, function = int(name[-2]), "transpose" in name, getattr(torch, name)
    channels = x.rank - spatial - 1
    names = ("stride", "padding", *(("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")))
    given = {name: value for name, value in (*zip(names, args, strict=False), *kwargs.items()) if name != "bias"}
    groups, group = _groups(x.layout_on(channels), given.pop("groups", 1))
    if not transposed and _covers_vectors(x, channels, given):
        assert x.axis is not None
        weight = x.context.fit(weight, x.axis - channels + 1, x.vectors)
    else:
        refuse_elsewhere(x, channels)
        weight = x.context.fit(weight, int(not transposed), x.layout_on(channels) if transposed else group)

    def layer(parts: Tensor, weight: Tensor, groups: int = groups) -> Tensor:
        if not transposed and is_pointwise(weight, (), {**given, "groups": groups}):
            return pointwise(parts, weight.flatten(1), channels)
        flat = parts.flatten(0, 1) if x.rank == spatial + 2 else parts
        out = function(flat, weight, None, groups=groups, **given)
        return out.unflatten(0, (parts.shape[0], -1)) if x.rank == spatial + 2 else out

    return weight, layer, channels


def _covers_vectors(x: Q, channels: int, given: dict[str, Any]) -> bool:
    """Whether a layer's kernel covers a spatial axis of coordinates: Conv2d(1, C, (1, 3)) on (B, 1, N, 3) is w·f per point.

    The module knows its kernel as its author wrote it; the weight is re-sized to one number per vector.
    """
    running = owner_of_call()
    if x.axis is None or x.axis <= channels or not x.holds_vectors(x.axis) or running is None:
        return False

    def along(value: Any) -> Any:
        return value[x.axis - channels - 1] if isinstance(value, (tuple, list)) else value  # type: ignore[operator]

    kernel = along(getattr(running.module, "kernel_size", None))
    whole = along(given.get("padding", 0)) in (0, "valid") and along(given.get("dilation", 1)) == 1
    covers = whole and kernel == lay.width(x.vectors)
    if covers:
        running.module.kernel_over_vectors = True  # type: ignore[assignment]  # passes later need to know which module runs
    return covers


def _groups(layout: str, groups: int) -> tuple[int, str]:
    """The number of groups of entries for so many of channels, and the layout of each.

    If each coordinate is a group of its own, each vector is one: its filters are those of x, y and z together.
    """
    if groups == lay.width(layout) and lay.has_vectors(layout):
        return len(layout), layout[:1] if set(layout) == {"s"} else "f"
    if lay.width(layout) % groups:
        raise NoRuleError(f"{groups} groups of {lay.width(layout)} channels ({lay.describe(layout)})")
    sizes = [lay.width(layout) // groups] * groups
    counts = lay.split_sizes(layout, sizes) if lay.has_vectors(layout) else sizes
    group = layout[: counts[0]]
    if layout != group * groups:
        raise NoRuleError(f"{groups} groups of channels that are not alike ({lay.describe(layout)})")
    return groups, group


CONVOLUTIONS = tuple(f"conv{kind}{spatial}d" for spatial in (1, 2, 3) for kind in ("", "_transpose"))


@paper.each(*CONVOLUTIONS, row="Convolution")
def convolution(name: str, x: Q, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Q:
    """w ⊗ f, no bias."""
    weight, layer, channels = convolution_of(x, weight, name, args, kwargs)
    x.context.drop_bias(bias)
    return gated(x, lambda parts: layer(parts, weight), channels)
