"""`rules="frames"`: any network, even a black box, made invariant from outside (Puny et al. 2022, frame averaging).

    f̂(X) = 1/4 Σ_F  F · f(X·F),     F: the four right-handed PCA frames of the cloud

Outputs that are coordinates are rotated back by F, others are taken as they are. In training one of the four is drawn for
each cloud. The network keeps its weights and its code; its features are those of the cloud in a frame, and not equivariant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.nn.coordinates import axis_of_vectors
from reqnn.points import degenerate_axes, right_handed_frames
from reqnn.revision.inputs import Inputs, cloud_of, is_numbers, members_of, rotate_vectors
from reqnn.revision.module import RevisedModel
from reqnn.revision.report import RevisionReport, count_parameters
from reqnn.rules.registry import RuleSet
from reqnn.tensor.nested import leaves, map_leaves

FRAMES = 4


class BlackBox(nn.Module):
    """A function, such as a session of ONNX Runtime, as a module without parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self.function(*args, **kwargs)


class FramedModel(RevisedModel):
    """A network that sees every cloud in its PCA frames.

    Attributes:
        model: the network as it was.
        rotated: for each output the axis of its coordinates, None if it does not rotate.
    """

    def __init__(self, model: nn.Module, inputs: Inputs, rules: RuleSet, rotated: list[int | None]) -> None:
        super().__init__(model, inputs, rules, strict=False, auto_real=False)
        self.rotated = rotated

    def _forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, places = self.by_position(args, kwargs)
        frames = self._frames(given)  # (rows, F, 3, 3)
        outputs = []
        for frame in frames.unbind(1):
            seen = {place: self._seen(place, value, frame) for place, value in given.items()}
            named = {**kwargs, **{name: seen[place] for place, name in places.items()}}
            outputs.append(self.model(*(seen[place] for place in range(len(args))), **named))
        return self._averaged(outputs, frames)

    def _frames(self, given: dict[int, Any]) -> Tensor:
        """The frames of each cloud, one of them drawn in training; of each point where clouds lie one behind the other."""
        first, axis = self.inputs.first
        xyz = cloud_of(given[first], axis).detach()
        members = members_of(given.values(), len(xyz[0])) if given[first].dim() == 2 else None
        if members is None:
            return self._drawn(right_handed_frames(xyz))
        clouds = [right_handed_frames(xyz[:, members == cloud]) for cloud in range(int(members.max()) + 1)]
        return self._drawn(torch.cat(clouds))[members]

    def _drawn(self, frames: Tensor) -> Tensor:
        if not self.training:
            return frames
        choice = torch.randint(FRAMES, (len(frames),), device=frames.device)
        return frames[torch.arange(len(frames), device=frames.device), choice].unsqueeze(1)

    def _seen(self, position: int, value: Any, frame: Tensor) -> Any:
        """An input in a frame: its vectors x become Fᵀx."""
        axis = self.inputs.check(position, value)
        if axis is None:
            return value
        return rotate_vectors(value, axis, frame.mT, self.inputs.scalars_of(position))

    def _averaged(self, outputs: list[Any], frames: Tensor) -> Any:
        """The mean over the frames, coordinates rotated back; what is no floating-point number, as in the first frame."""
        columns = zip(*(leaves(output) for output in outputs), strict=True)
        means: list[Any] = []
        for place, column in enumerate(columns):
            if not is_numbers(column[0]):
                means.append(column[0])
                continue
            axis = self.rotated[place] if place < len(self.rotated) else None
            if axis is not None:
                pairs = zip(column, frames.unbind(1), strict=True)
                column = tuple(rotate_vectors(value, axis, frame) for value, frame in pairs)
            means.append(torch.stack(column).mean(0))
        return _rebuilt(outputs[0], means)

    def features(self, *inputs: Any, at: str | None = None, **kwargs: Any) -> Tensor:
        """There are no equivariant features inside."""
        raise InputError("the network sees clouds in frames (rules='frames'): its features are not equivariant")

    put_features = features


def framed(
    model: Any, inputs: Inputs, rules: RuleSet, rotating: list[bool], expected: Any, args: tuple[Any, ...], kept: bool
) -> FramedModel:
    """A network in frames, with its report."""
    first, axis = inputs.first
    rotated = [
        axis_of_vectors(leaf, axis) if rotates else None for leaf, rotates in zip(leaves(expected), rotating, strict=True)
    ]
    net = FramedModel(model, inputs, rules, rotated)
    count = count_parameters(model)
    copied = [name for name, _ in model.named_parameters()] if kept else []
    notes = [
        "the network is averaged over the four right-handed PCA frames of each cloud: outputs are invariant, or rotate if they "
        "are coordinates; features inside are not equivariant, and the order of the points matters as much as in the original"
    ]
    degenerate = int(degenerate_axes(cloud_of(args[first], axis)).sum())
    if degenerate:
        notes.append(
            f"{degenerate} clouds of the example have two equal variances: their frames, and so outputs, are not unique"
        )
    if any(found is not None for found in rotated):
        notes.append(f"outputs that rotate: {[place for place, found in enumerate(rotated) if found is not None]}")
    net.report = RevisionReport([], count, count, copied=copied, notes=notes)
    return net


def _rebuilt(tree: Any, values: list[Any]) -> Any:
    left = iter(values)
    return map_leaves(lambda _: next(left), tree)
