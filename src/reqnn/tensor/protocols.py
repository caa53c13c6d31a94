"""What a quaternion tensor asks of the layers above it: rules, the dry run, and components that are computed later."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor, nn


class Rule(Protocol):
    """One entry of a rule set (`reqnn.rules.Rule`)."""

    @property
    def name(self) -> str:
        """The torch function's name."""

    @property
    def apply(self) -> Callable[..., Any]:
        """What is called instead, with the same arguments."""

    @property
    def row(self) -> str:
        """The row of Table 1 it belongs to, or "structure" or "algebra"."""

    @property
    def extension(self) -> bool:
        """Whether it goes beyond the paper."""

    @property
    def linear(self) -> bool:
        """Whether an in-place form may write through to views of the same memory."""

    @property
    def gathered(self) -> Callable[..., Any] | None:
        """The same on gathered storage; NotImplemented where it has no such form."""


class Rules(Protocol):
    """Where operations are looked up (`reqnn.rules.RuleSet`)."""

    name: str

    def find(self, name: str) -> Rule | None:
        """The rule for a torch function of that name."""

    def option(self, name: str) -> Any:
        """A constant that rules read."""


class Learning(Protocol):
    """Makes the parameters that rules ask for (`reqnn.revision.learned.LearnedParameters`)."""

    def get(
        self, owner: nn.Module, key: str, shape: tuple[int, ...], like: Tensor, initialise: Callable[[Tensor], Any]
    ) -> Tensor:
        """A parameter, made where there is none of that shape yet."""


class DryRun(Protocol):
    """What rules may ask for and change while a network is being revised (`reqnn.revision.plan.Plan`)."""

    names: dict[int, str]
    readings: int

    @property
    def learned(self) -> Learning:
        """The parameters that rules have asked for."""

    def record(self, rule: Rule, result: Any) -> None:
        """Note an operation on quaternions."""

    def met(self, row: str, operation: str = "", kind: str = "real", extension: bool = False) -> None:
        """Note a row of Table 1 that has no torch function."""

    def met_function(self, function: Any) -> None:
        """Note a well-known function on points."""

    def met_head(self) -> None:
        """Note Quaternion2Real before the first Linear on (B, C) features."""

    def keeps_size(self, weight: Tensor) -> bool:
        """Whether a parameter must not be re-sized, since the code takes slices of it."""
        ...

    def owner(self, value: Any) -> tuple[nn.Module, str, Tensor] | None:
        """The module and name of a parameter."""

    def resize(self, weight: Tensor, dim: int, layout: str) -> Tensor:
        """Make a parameter's axis as long as the layout has entries."""

    def widen_weight(self, weight: Tensor, channels: int) -> Tensor:
        """Make a linear layer of the real part take more numbers."""

    def drop(self, bias: Tensor) -> bool:
        """Remove a bias parameter; False where the tensor is none."""

    def to_batch_norm(self, buffer: Tensor | None, channels: int, turn: Callable[[Any, int], None] = ...) -> bool:
        """Swap the batch-norm module that is being called; False where none is."""

    def to_relu(self, weight: Tensor) -> None:
        """Swap the PReLU module that is being called."""

    def real_before(self, name: str, gate: str = "") -> None:
        """Ask for a new start with Quaternion2Real before this layer."""

    def output_vectors(self, x: Any) -> None:
        """The layer that made the quaternions x predicts coordinates."""


class Deferred(Protocol):
    """Components that are computed when they are asked for."""

    @property
    def raw(self) -> Tensor:
        """A tensor of their shape, dtype and device."""

    @property
    def sources(self) -> tuple[weakref.WeakValueDictionary[int, Any], ...]:
        """Who else waits for the memory they come from; before it is overwritten in place, all take their values."""

    def components(self) -> Tensor:
        """The values."""

    def squared_norm(self) -> Tensor:
        """Their squared norms."""
