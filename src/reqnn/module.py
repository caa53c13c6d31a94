"""The module that `revise` returns."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reqnn.context import Context, RemovedBias, RemovedTransform, ScalarTensor, companion
from reqnn.errors import InputError
from reqnn.learned import hand_over
from reqnn.nn.quaternion_to_real import becomes_real_before, quaternion_to_real_hook
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor, from_real

if TYPE_CHECKING:
    from reqnn.plan import Plan
    from reqnn.report import RevisionReport


@dataclass(frozen=True)
class Inputs:
    """How the inputs of a network are read.

    Attributes:
        axes: for each positional input the axis of its vectors, None where it is real.
        channels: the number of channels on that axis.
        scalars: how many of them, the last ones, are scalars.
        ranks: the number of axes of each input.
    """

    axes: tuple[int | None, ...]
    channels: tuple[int, ...]
    scalars: int
    ranks: tuple[int, ...]

    def quaternions(self, values: dict[int, Any], context: Context) -> dict[int, Any]:
        """Inputs, by position, with their vectors as quaternions; sets the context's cloud and batch."""
        return {position: self._convert(position, values[position], context) for position in sorted(values)}

    def _convert(self, position: int, value: Any, context: Context) -> Any:
        axis = self.axes[position] if position < len(self.axes) else None
        if axis is None:
            real = isinstance(value, Tensor) and value.is_floating_point()
            return companion(value, ScalarTensor) if real else value
        if not isinstance(value, Tensor):
            raise InputError(f"points are a {type(value).__name__}; a tensor is needed: use torch.as_tensor")
        check_points(value, axis, self.channels[position], self.ranks[position])
        if context.points is None:
            context.batch = value.shape[0] if value.dim() > 2 else None
            context.points = _cloud(value, axis)
        return from_real(value, axis, context, self._scalars(position))

    def _scalars(self, position: int) -> int:
        first = next(i for i, axis in enumerate(self.axes) if axis is not None)
        return self.scalars if position == first else 0


def check_points(x: Tensor, axis: int, channels: int, rank: int) -> None:
    """Raise `InputError` for what cannot be a cloud of this layout, before any work is done."""
    shown = f"the input has shape {tuple(x.shape)}"
    if not x.is_floating_point():
        raise InputError(f"{shown} and dtype {x.dtype}; points must be floating point: call .float() first")
    if x.dim() != rank:
        raise InputError(f"{shown}, {x.dim()} axes; the model was revised for {rank} axes")
    if x.shape[axis] != channels:
        raise InputError(f"{shown}; axis {axis} must hold the {channels} channels that the model was revised for")
    if x.numel() == 0:
        raise InputError(f"{shown}: it is empty; at least one cloud with at least one point is needed")
    if not torch.compiler.is_compiling() and not bool(torch.isfinite(x).all()):
        raise InputError(f"{shown} and holds NaN or infinite values; remove those points first")


def _cloud(x: Tensor, axis: int) -> Tensor:
    """(B, N, 3) coordinates of an input: its first vector at each point."""
    xyz = x.movedim(axis, -1)[..., :3]
    return xyz.reshape(xyz.shape[0], -1, 3) if xyz.dim() > 2 else xyz.unsqueeze(0)


_OWN = frozenset({"model", "inputs", "rules", "strict", "auto_real", "real_before", "report"})
"""What belongs to the revised model itself, also where the network inside has attributes of these names."""


@dataclass(frozen=True)
class RealPlace:
    """Where features become real.

    Attributes:
        module: the submodule before which they do.
        outermost: how deep the outermost submodule lies that begins with it; where one of these is exchanged as a whole,
            features become real before that.
    """

    module: nn.Module
    outermost: int


class RevisedModel(nn.Module):
    """A network whose features are quaternions that turn with the input, and whose outputs do not.

    Calls and outputs are those of the original model; its submodules are reached by their old names.

    Attributes:
        model: the revised copy.
        report: which operation met which rule; `str(report)` is a table.
    """

    report: RevisionReport

    def __init__(self, model: nn.Module, inputs: Inputs, rules: RuleSet, strict: bool, auto_real: bool) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.rules, self.strict, self.auto_real = inputs, rules, strict, auto_real
        self.real_before: dict[str, RealPlace] = {}
        self.train(model.training)

    def context(self, plan: Plan | None = None) -> Context:
        """A fresh context for one forward pass."""
        names = plan.names if plan is not None else {id(m): n for n, m in self.model.named_modules()}
        return Context(self.rules, self.strict, auto_real=self.auto_real, names=names, plan=plan)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The original's call; points in any orientation and order give the same answer."""
        if torch.compiler.is_dynamo_compiling():
            return _forward_in_graph(self, args, kwargs)
        return self._forward(args, kwargs)

    def _forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return to_outputs(self.run(self.context(), args, kwargs))

    def run(self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The forward pass with quaternion outputs left as they are."""
        self.keep_real_places()
        names = list(inspect.signature(self.model.forward).parameters) if kwargs else []
        places = {names.index(name): name for name in kwargs if name in names}
        given = dict(enumerate(args)) | {place: kwargs[name] for place, name in places.items()}
        values = self.inputs.quaternions(given, context)
        named = {name: values[place] for place, name in places.items()}
        out = self.model(*(values[place] for place in range(len(args))), **{**kwargs, **named})
        context.finish()
        return out

    def features(self, *inputs: Any, at: str | None = None, **kwargs: Any) -> Tensor:
        """The output of a submodule for these inputs: quaternions that turn with the cloud, or real features that do not.

        A pass like any other, with gradients; in training mode it updates statistics. A submodule of the model itself that is
        called `features` is reached as `net.model.features`.

        Args:
            inputs: as the network takes them.
            at: name of the submodule, "conv5" say; "conv5#2" for its second call in a pass; "" for the whole network. Default:
                what Quaternion2Real is given (the first time, where a pass comes by more than once, as a DGCNN with votes
                does), the last quaternion features, or the outputs where all are quaternions.
            kwargs: further arguments of the network.

        Returns:
            A `QuaternionTensor` in the quaternion part, a plain tensor in the real one.
        """
        from reqnn.features import take_features

        return take_features(self, at, inputs, kwargs)

    def put_features(self, features: Tensor, *inputs: Any, at: str | None = None, **kwargs: Any) -> Any:
        """The outputs of the network when the output of a submodule is replaced by these features.

        What goes past that submodule (coordinates, skip connections) still comes from the inputs.

        Args:
            features: of the kind and shape that `features` gives for these inputs.
            inputs: as the network takes them.
            at: as in `features`; where a pass comes by more than once the call has to be named, "conv5#1".
            kwargs: further arguments of the network.
        """
        from reqnn.features import put_features

        return put_features(self, features, at, inputs, kwargs)

    def remember_real_places(self) -> None:
        """Note before which submodules features become real, for `keep_real_places`."""
        self.real_before = {}
        for name, module in self.model.named_modules():
            if becomes_real_before(module) and name:
                path = _path(self.model, name)
                outermost = next(depth for depth, part in enumerate(path) if depth and _begins_real(part))
                self.real_before[name] = RealPlace(module, outermost)

    def keep_real_places(self) -> None:
        """Put Quaternion2Real before what took the place of a submodule it stood before: ``net.head[0] = nn.Linear(…)``.

        What the rule set has learned for it goes along. Where nothing took its place, nothing is done.
        """
        for name, place in self.real_before.items():
            path = _path(self.model, name)
            now = path[-1]
            if len(path) > place.outermost and not _begins_real(now) and not any(map(becomes_real_before, path)):
                hand_over(place.module, now)
                now.register_forward_pre_hook(quaternion_to_real_hook, with_kwargs=True)
                self.real_before[name] = replace(place, module=now)

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        """As of any module; a layer that was just exchanged holds what was learned for its place, so that optimizers see it."""
        self.keep_real_places()
        return super().named_modules(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "model" or name.startswith("__"):
                raise
            return getattr(super().__getattr__("model"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What is read from the revised model is written to it: ``net.head = nn.Linear(…)`` exchanges its head.

        Where features become real before a submodule, they do so before the one that takes its place.
        """
        if self._belongs_to_model(name):
            setattr(self.model, name, value)
            self.keep_real_places()
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if self._belongs_to_model(name):
            delattr(self.model, name)
        else:
            super().__delattr__(name)

    def _belongs_to_model(self, name: str) -> bool:
        own = self.__dict__
        if name in _OWN or "model" not in own.get("_modules", {}) or name in own or hasattr(type(self), name):
            return False
        held = (own["_modules"], own["_parameters"], own["_buffers"])
        return not any(name in some for some in held) and hasattr(own["_modules"]["model"], name)


def _path(model: nn.Module, name: str) -> list[nn.Module]:
    """From the model to the submodule of that name, as far as it is there."""
    path = [model]
    for child in name.split("."):
        part = path[-1]._modules.get(child)
        if part is None:
            break
        path.append(part)
    return path


def _begins_real(module: nn.Module) -> bool:
    """Whether Quaternion2Real stands before a submodule, or before the first within it."""
    first = next(module.children(), None)
    return becomes_real_before(module) or (first is not None and _begins_real(first))


@torch._dynamo.nonstrict_trace
def _forward_in_graph(net: RevisedModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Under ``torch.compile`` the quaternion tensors are traced through, as ``torch.export`` does, not looked at one by one."""
    return net._forward(args, kwargs)


def to_outputs(tree: Any) -> Any:
    """Outputs as the original gives them: vectors as coordinates, other quaternions by their squared norms."""
    if isinstance(tree, QuaternionTensor):
        if tree.axis is not None and set(tree.vectors) <= {"v", "l", "s"}:
            return tree.as_real()
        return tree.squared_norm()
    if isinstance(tree, (RemovedTransform, RemovedBias, ScalarTensor)):
        return tree.as_subclass(Tensor)
    if isinstance(tree, dict):
        return type(tree)((key, to_outputs(value)) for key, value in tree.items())
    if hasattr(tree, "_fields"):
        return type(tree)(*(to_outputs(value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(to_outputs(value) for value in tree)
    return tree
