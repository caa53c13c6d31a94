"""What a quaternion tensor asks of the layers above it: rules, the dry run, and components that are computed later."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Rule:
    """One entry of a rule set.

    Attributes:
        name: the torch function's name.
        apply: what is called instead, with the same arguments.
        row: the row of Table 1 it belongs to, or "structure" or "algebra" for what the number system itself brings.
        extension: whether it goes beyond the paper; `revise(strict=True)` refuses those.
        linear: whether an in-place form may write through to views of the same memory.
        gathered: the same on gathered storage (`reqnn.tensor.gathered`); NotImplemented where it has no such form.
    """

    name: str
    apply: Callable[..., Any]
    row: str
    extension: bool = False
    linear: bool = False
    gathered: Callable[..., Any] | None = None


class Rules(Protocol):
    """Where operations and constants are looked up (`reqnn.rules.RuleSet`)."""

    name: str

    def find(self, name: str) -> Rule | None: ...
    def option(self, name: str) -> Any: ...


class Learning(Protocol):
    """Makes the parameters that rules ask for (`reqnn.revision.learned.LearnedParameters`)."""

    def get(
        self, owner: nn.Module, key: str, shape: tuple[int, ...], like: Tensor, initialise: Callable[[Tensor], Any]
    ) -> Tensor: ...


class DryRun(Protocol):
    """What rules may ask for and change while a network is being revised (`reqnn.revision.plan.Plan`)."""

    names: dict[int, str]
    readings: int

    @property
    def learned(self) -> Learning: ...
    def record(self, rule: Rule, result: Any) -> None: ...
    def met(self, row: str, operation: str = "", kind: str = "real", extension: bool = False) -> None: ...
    def met_function(self, function: Any) -> None: ...
    def met_head(self) -> None: ...
    def keeps_size(self, weight: Tensor) -> bool: ...
    def owner(self, value: Any) -> tuple[nn.Module, str, Tensor] | None: ...
    def resize(self, weight: Tensor, dim: int, layout: str) -> Tensor: ...
    def widen_weight(self, weight: Tensor, channels: int) -> Tensor: ...
    def drop(self, bias: Tensor) -> bool: ...
    def to_batch_norm(self, buffer: Tensor | None, channels: int, turn: Callable[[Any, int], None] = ...) -> bool: ...
    def to_relu(self, weight: Tensor) -> None: ...
    def real_before(self, name: str, gate: str = "") -> None: ...
    def output_vectors(self, x: Any) -> None: ...
    def maker_of(self, value: Any) -> str: ...
    def layer(self) -> str: ...


class Deferred(Protocol):
    """Components that are computed when they are asked for.

    Attributes:
        raw: a tensor of their shape, dtype and device.
        sources: who else waits for the memory they come from; before it is overwritten in place, all take their values.
    """

    @property
    def raw(self) -> Tensor: ...
    @property
    def sources(self) -> tuple[weakref.WeakValueDictionary[int, Any], ...]: ...
    def components(self) -> Tensor: ...
    def squared_norm(self) -> Tensor: ...
