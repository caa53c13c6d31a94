"""The module that `revise` returns."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import ExportError, InputError, NoRuleError
from reqnn.nn.coordinates import frames_of
from reqnn.nn.quaternion_to_real import becomes_real_before, quaternion_to_real_hook
from reqnn.points import CloudBatch
from reqnn.revision import encoding
from reqnn.revision import features as _features
from reqnn.revision.in_double import InDouble
from reqnn.revision.inputs import Inputs
from reqnn.revision.learned import hand_over, has_learned
from reqnn.revision.outputs import rotated_back, to_outputs
from reqnn.revision.plan import Plan
from reqnn.revision.report import RevisionReport
from reqnn.rules.registry import RuleSet
from reqnn.tensor import Context
from reqnn.tensor.running import follow, fresh_stack
from reqnn.tensor.sorted_topk import SortedTopk

_OWN = frozenset({"model", "inputs", "rules", "strict", "auto_real", "learns", "real_before", "report", "back"})
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
    """A network whose features are quaternions that rotate with the input, and whose outputs do not.

    Calls and outputs are those of the original model; its submodules are reached by their old names.

    Attributes:
        model: the revised copy.
        report: which operation met which rule; `str(report)` is a table.
    """

    report: RevisionReport
    matrices_in_frame = False  # whether real matrices (…, 3, 3) multiply coordinates in the PCA frame
    sorts = False  # whether topk(sorted=False) sorts: the order of its values would decide

    def __init__(self, model: nn.Module, inputs: Inputs, rules: RuleSet, strict: bool, auto_real: bool) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.rules, self.strict, self.auto_real = inputs, rules, strict, auto_real
        self.learns = False  # whether rules need to know which module runs, as learned ones do: hooks say so
        self.real_before: dict[str, RealPlace] = {}
        self.back: dict[int, tuple[int, ...]] = {}  # place among the outputs → axes that are rotated back from the PCA frame
        self.train(model.training)

    def context(self, plan: Plan | None = None) -> Context:
        """A fresh context for one forward pass."""
        names = plan.names if plan is not None else {id(m): n for n, m in self.model.named_modules()}
        return Context(
            self.rules,
            self.strict,
            auto_real=self.auto_real,
            names=names,
            plan=plan,
            matrices_in_frame=self.matrices_in_frame,
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The original's call; points in any orientation and order give the same answer."""
        if torch.compiler.is_dynamo_compiling():
            return _forward_in_graph(self, args, kwargs)
        if len(args) == 1 and isinstance(args[0], CloudBatch):
            return self._forward_by_size(args[0], kwargs)
        return self._forward(args, kwargs)

    def __prepare_scriptable__(self) -> None:
        """Called by torch.jit.script, which cannot compile a revised network."""
        raise ExportError("a revised network cannot be used with torch.jit; use torch.export, or reqnn.export(net, file)")

    def _forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.jit.is_tracing():
            self.__prepare_scriptable__()
        context = self.context()
        outputs = to_outputs(self.run(context, args, kwargs))
        return rotated_back(outputs, self.back, self._frame(context)) if self.back else outputs

    @staticmethod
    def _frame(context: Context) -> Tensor:
        """(B, 3, 3) the PCA frames in which outputs are seen that are rotated back."""
        if context.members is not None or context.frames().shape[1] != 1:
            raise NoRuleError("outputs can be rotated back from one PCA frame of each cloud of a batch; use rules='frames'")
        return context.frames()[:, 0]

    def _forward_by_size(self, batch: CloudBatch, kwargs: dict[str, Any]) -> Any:
        if self.training and len(batch.lengths.unique()) > 1:
            given = f"clouds of {int(batch.lengths.min())} to {int(batch.lengths.max())} points"
            raise InputError(
                f"{given} in training: statistics of a batch need one size; give batch.resample(points), or net.eval()"
            )
        return batch.map(lambda clouds: self._forward((clouds,), kwargs))

    def run(self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The forward pass with quaternion outputs left as they are."""
        self.keep_real_places()
        if self.learns:
            follow(self.model)
        given, places = self.by_position(args, kwargs)
        with self._precision(given):
            values = self.inputs.quaternions(given, context)
            named = {name: values[place] for place, name in places.items()}
            with fresh_stack(), frames_of(context), self._modes(values[self.inputs.first[0]]):
                out = self.model(*(values[place] for place in range(len(args))), **{**kwargs, **named})
                context.finish()
                return out

    @contextmanager
    def _modes(self, points: Any) -> Iterator[None]:
        """How the network's own calls of torch run: topk sorted, if asked for; float32 numbers that meet float64 as such."""
        double = isinstance(points, Tensor) and points.dtype == torch.float64 and not torch.compiler.is_compiling()
        with SortedTopk() if self.sorts else nullcontext(), InDouble() if double else nullcontext():
            yield

    def _precision(self, given: dict[int, Any]) -> AbstractContextManager[Any]:
        """In training autocast holds; in eval mode it is left: by its three digits answers would change with the orientation.

        `InputError` for points in another precision than the network, and for a network in half precision.
        """
        own, (first, _) = next((p.dtype for p in self.parameters() if p.is_floating_point()), None), self.inputs.first
        points = given.get(first)
        if own is None or not isinstance(points, Tensor) or not points.is_floating_point():
            return nullcontext()
        autocast = not points.is_meta and torch.is_autocast_enabled(points.device.type)
        if autocast and self.training:
            return nullcontext()
        if own in (torch.float16, torch.bfloat16):
            raise InputError(f"the network is in {own}; norms and neighbours that decide need float32: call .float()")
        if points.dtype != own:
            kept = f"call points.to({own})" + (" or net.double() to keep digits" if points.dtype == torch.float64 else "")
            given_as = f"points have dtype {points.dtype}, the network {own}"
            raise InputError(f"{given_as}: {kept}; net.predict(points) converts after it has normalised")
        return torch.autocast(points.device.type, enabled=False) if autocast else nullcontext()

    def by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[int, Any], dict[int, str]]:
        """All arguments by their positions, and the names of those that were passed by name."""
        names = list(inspect.signature(self.model.forward).parameters) if kwargs else []
        places = {names.index(name): name for name in kwargs if name in names}
        return dict(enumerate(args)) | {place: kwargs[name] for place, name in places.items()}, places

    def features(self, *inputs: Any, at: str | None = None, **kwargs: Any) -> Tensor:
        """The output of a submodule for these inputs: quaternions that rotate with the cloud, or real features that do not.

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
        return _features.take_features(self, at, inputs, kwargs)

    def put_features(self, features: Tensor, *inputs: Any, at: str | None = None, **kwargs: Any) -> Any:
        """The outputs of the network when the output of a submodule is replaced by these features.

        What goes past that submodule (coordinates, skip connections) still comes from the inputs.

        Args:
            features: of the kind and shape that `features` gives for these inputs.
            inputs: as the network takes them.
            at: as in `features`; where a pass comes by more than once the call has to be named, "conv5#1".
            kwargs: further arguments of the network.
        """
        return _features.put_features(self, features, at, inputs, kwargs)

    def encode(self, *inputs: Any, at: str | None = None, **kwargs: Any) -> dict[str, Tensor]:
        """A cloud in any place, size and orientation, for a policy or a regressor: invariants, and vectors that rotate with it.

        Args:
            inputs: as the network takes them; their cloud is centred and scaled to the unit sphere first.
            at: where the vectors are taken, as in `features`.
            kwargs: further arguments of the network.

        Returns:
            "invariant" (B, D), what the last Linear is given, or the vectors' norms if there is none; "vectors" (B, C, 3), the
            quaternion features at that place, their mean if they belong to points; "center" (B, 3) and "scale" (B,).
        """
        return encoding.encode(self, at, inputs, kwargs)

    def predict(self, *inputs: Any, robust: bool = False, **kwargs: Any) -> Any:
        """The outputs for a cloud in any place, size, orientation and dtype: centred and scaled to the unit sphere in float64.

        In eval mode and without gradients. The networks of `reqnn.load` were trained on clouds that are normalised so.

        Args:
            inputs: as the network takes them.
            robust: first replace points farther than 4 median distances from the centre by copies of inner ones; one stray
                point may otherwise shrink all others into the centre.
            kwargs: further arguments of the network.
        """
        return encoding.predict(self, inputs, kwargs, robust)

    def remember_real_places(self) -> None:
        """Note before which submodules features become real, for `keep_real_places`."""
        self.real_before = {}
        for name, module in self.model.named_modules():
            if becomes_real_before(module) and name:
                path = _path(self.model, name)
                outermost = next(depth for depth, part in enumerate(path) if depth and _begins_real(part))
                self.real_before[name] = RealPlace(module, outermost)

    def keep_real_places(self, exchanging: bool = False) -> None:
        """Put Quaternion2Real before what took the place of a submodule it stood before.

        What the rule set has learned for the place goes along with an exchange by way of the revised model, ``net.head = …`` or
        ``net.set_submodule("head.0", …)``. Behind its back, ``net.head[0] = …``, it is lost, an optimizer may have been made
        without it: that is an error. Where nothing took its place, nothing is done.
        """
        for name, place in self.real_before.items():
            path = _path(self.model, name)
            now = path[-1]
            if len(path) > place.outermost and not _begins_real(now) and not any(map(becomes_real_before, path)):
                if not exchanging and has_learned(place.module):
                    raise InputError(
                        f"the submodule '{name}' was exchanged, and with it went what the rule set has learned for its place; "
                        f"net.set_submodule('{name}', module) keeps that"
                    )
                hand_over(place.module, now)
                now.register_forward_pre_hook(quaternion_to_real_hook, with_kwargs=True)
                self.real_before[name] = replace(place, module=now)

    def set_submodule(self, target: str, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        """Exchange a submodule, "head.0" say; where features become real before it, they do so before the new one."""
        super().set_submodule(target, module, *args, **kwargs)
        self.keep_real_places(exchanging=True)

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
            self.keep_real_places(exchanging=True)
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
