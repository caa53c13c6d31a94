"""What belongs to one forward pass of a revised network and travels with its quaternion tensors.

No global state: two threads may run two revised networks at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.kernels.run import plain_torch_now
from reqnn.layout import has_vectors, width

if TYPE_CHECKING:
    from reqnn.learned import LearnedCall
    from reqnn.plan import Plan
    from reqnn.rules.registry import RuleSet


@dataclass(eq=False)
class Context:
    """The rule set and the cloud of one forward pass.

    Attributes:
        rules: where operations are looked up.
        strict: refuse rules beyond the paper.
        batch: the number of clouds, None where the input has no batch axis.
        auto_real: put Quaternion2Real before each Linear on (B, C) features.
        points: (B, N, 3) coordinates of the input, for the PCA frame.
        names: id(module) → name, for messages.
        plan: the dry run that is under way, which may re-size parameters; None in ordinary use.
        calls: module, by its identity → how often it has called operations with learned parameters, by their names.
        memo: what gathered storage has computed from the features of this pass.
        unmeasured: statistics of batch-norms that the next layer is to measure; the end of the pass measures what is left.
    """

    rules: RuleSet
    strict: bool = False
    batch: int | None = None
    auto_real: bool = False
    points: Tensor | None = None
    names: dict[int, str] = field(default_factory=dict)
    plan: Plan | None = None
    calls: dict[int, dict[str, int]] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)
    unmeasured: list[Any] = field(default_factory=list)
    _frames: Tensor | None = None

    @property
    def gathers(self) -> bool:
        """Whether gathered storage may be used now: not in the dry run, in graphs, or where ``fused=False`` says so."""
        return self.plan is None and bool(self.rules.option("fused")) and plain_torch_now()

    def finish(self) -> None:
        """End the pass: measure the statistics that no layer has asked for."""
        while self.unmeasured:
            self.unmeasured[0].resolve()

    def frames(self) -> Tensor:
        """(B, F, 3, 3) PCA frames of the input cloud, columns the axes: one, or all four right-handed ones.

        Paper, section 3.3, "3D coordinates weighting": the frame rotates with the points.
        """
        if self._frames is None:
            from reqnn.points import principal_frame, right_handed_frames

            if self.points is None:
                raise NoRuleError("a PCA frame is needed, but this pass has no input cloud")
            points = self.points.detach()
            if self.rules.option("frame") == "average":
                self._frames = right_handed_frames(points)
            else:
                self._frames = principal_frame(points).unsqueeze(1)
        return self._frames

    def fit(self, weight: Tensor, dim: int, layout: str) -> Tensor:
        """A parameter whose axis `dim` meets an axis with this layout: re-sized during the dry run, checked after it."""
        if not has_vectors(layout) or weight.shape[dim] == len(layout):
            return weight
        if weight.shape[dim] != width(layout):
            raise RuntimeError(f"expected {width(layout)} channels, but the parameter has {weight.shape[dim]} on axis {dim}")
        if self.plan is None:
            raise NoRuleError(
                f"a parameter of shape {tuple(weight.shape)} is still as wide as the coordinates ({width(layout)} numbers, "
                f"{len(layout)} vectors); revise the model again with an input of this layout"
            )
        return self.plan.resize(weight, dim, layout)

    def widen(self, weight: Tensor, channels: int) -> Tensor:
        """The weight of a real layer that is given so many numbers: re-sized during the dry run."""
        return weight if self.plan is None else self.plan.widen_weight(weight, channels)

    def learned(self, name: str, owner: nn.Module | None = None) -> LearnedCall:
        """The call of an operation with learned parameters that is under way, in `owner` or the innermost module."""
        from reqnn.learned import learned_call

        return learned_call(self, name, owner)

    def drop_bias(self, bias: Tensor | None) -> None:
        """Paper, section 3.3, "Convolution": the bias goes. Raises where one is still there after the dry run."""
        if bias is None or isinstance(bias, RemovedBias):
            return
        if self.plan is None or not self.plan.drop(bias):
            raise NoRuleError("a bias is a fixed direction: it does not turn with the features")


class _Companion(torch.Tensor):
    """A real tensor with a meaning of its own where it meets quaternions; among real tensors an ordinary one."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        from reqnn.tensor import QuaternionTensor

        if any(issubclass(kind, QuaternionTensor) for kind in types):
            from reqnn.dispatch import call

            return call(func, args, kwargs or {})
        return super().__torch_function__(func, types, args, kwargs or {})

    def __deepcopy__(self, memo: dict) -> _Companion:
        return self.detach().clone().as_subclass(type(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restore_companion, (self.as_subclass(torch.Tensor), type(self))


def companion(tensor: Tensor, kind: type[_Companion]) -> Tensor:
    """Mark a tensor; while a graph is traced the marks are left out, and rules trust what the dry run has found."""
    return tensor if torch.compiler.is_compiling() else tensor.as_subclass(kind)


def _restore_companion(tensor: Tensor, kind: type[_Companion]) -> Tensor:
    return tensor.as_subclass(kind)


class RemovedBias(_Companion):
    """What stands where a bias parameter was that the code adds by hand: adding it changes nothing."""


class RemovedTransform(_Companion):
    """The identity that a removed submodule returns: ``bmm(x, trans)`` gives x back."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Copies and transposes are still the identity; what else is computed with it is an ordinary tensor."""
        out = super().__torch_function__(func, types, args, kwargs)
        if isinstance(out, cls) and getattr(func, "__name__", "") not in _STILL_IDENTITY:
            return out.as_subclass(torch.Tensor)
        return out


_STILL_IDENTITY = ("transpose", "mT", "contiguous", "clone", "detach", "to", "type_as", "float", "double", "expand", "__get__")


class ScalarTensor(_Companion):
    """Numbers that come from real inputs alone (a class label, declared scalars): they may stand beside vectors."""


def default_context() -> Context:
    """The paper's rules, outside of any network."""
    from reqnn.rules import get_rules

    return Context(get_rules("paper"))
