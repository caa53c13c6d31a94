"""`rules="frames"`: any network, even a black box, made invariant from outside (Puny et al. 2022, frame averaging).

    f̂(X) = 1/4 Σ_F  F · f(X·F),     F: the four right-handed PCA frames of the cloud

Outputs that are coordinates are rotated back by F, others are taken as they are. In training one of the four is drawn for
each cloud. The network keeps its weights and its code; its features are those of the cloud in a frame, and not equivariant.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.points import degenerate_axes, right_handed_frames
from reqnn.revision.in_double import InDouble
from reqnn.revision.inputs import Inputs, cloud_of, is_numbers, members_of, rotate_vectors
from reqnn.revision.module import RevisedModel
from reqnn.revision.outputs import rotated_back
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
        rotated: place among the outputs → the axis of its coordinates, or both axes of its matrices.
    """

    def __init__(self, model: nn.Module, inputs: Inputs, rules: RuleSet, rotated: dict[int, tuple[int, ...]]) -> None:
        super().__init__(model, inputs, rules, strict=False, auto_real=False)
        self.rotated = rotated

    def _forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, places = self.by_position(args, kwargs)
        outputs = []
        with self._precision(given):
            for frame in self._frames(given).unbind(1):  # (rows, 3, 3) each
                seen = {place: self._seen(place, value, frame) for place, value in given.items()}
                named = {**kwargs, **{name: seen[place] for place, name in places.items()}}
                with InDouble() if frame.dtype == torch.float64 else nullcontext():
                    output = self.model(*(seen[place] for place in range(len(args))), **named)
                outputs.append(rotated_back(output, self.rotated, frame))
        return self._averaged(outputs)

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

    @staticmethod
    def _averaged(outputs: list[Any]) -> Any:
        """The mean over the frames; what is no floating-point number, as in the first frame."""
        columns = zip(*(leaves(output) for output in outputs), strict=True)
        means = iter([torch.stack(column).mean(0) if is_numbers(column[0]) else column[0] for column in columns])
        return map_leaves(lambda _: next(means), outputs[0])

    def features(self, *inputs: Any, at: str | None = None, **kwargs: Any) -> Tensor:
        """There are no equivariant features inside."""
        raise InputError("the network sees clouds in frames (rules='frames'): its features are not equivariant")

    put_features = features


def framed(
    model: Any, inputs: Inputs, rules: RuleSet, rotated: dict[int, tuple[int, ...]], args: tuple[Any, ...], kept: bool
) -> FramedModel:
    """A network in frames, with its report."""
    first, axis = inputs.first
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
    if rotated:
        notes.append(f"outputs that rotate: {sorted(rotated)}")
    net.report = RevisionReport([], count, count, copied=copied, notes=notes)
    return net


def coordinates_among(
    expected: Any, run: Callable[[tuple[Any, ...]], Any], inputs: Inputs, args: tuple[Any, ...]
) -> dict[int, tuple[int, ...]]:
    """Place → axis of the outputs that rotate with a cloud of the batch already, such as sampled points and neighbourhoods."""
    rotation = torch.tensor([[[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]])  # x → y → z → x
    others = leaves(run(inputs.map_clouds(lambda x, axis, scalars: rotate_vectors(x, axis, rotation, scalars), args)))
    found: dict[int, tuple[int, ...]] = {}
    batch = len(args[inputs.first[0]])
    for place, (a, b) in enumerate(zip(leaves(expected), others, strict=True)):
        if is_numbers(a) and a.dim() > 1 and a.shape == b.shape and a.numel() and len(a) % batch == 0:
            far = 1e-4 * float(a.abs().max())
            axes = [axis for axis in range(1, a.dim()) if a.shape[axis] == 3 and float((a - b).abs().max()) > far]
            rotating = [axis for axis in axes if float((rotate_vectors(a, axis, rotation) - b).abs().max()) <= far]
            if rotating:
                found[place] = (rotating[-1],)
    return found
