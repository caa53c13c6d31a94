"""One call of an operation that has parameters which the rule set has learned for it.

A rule asks for the call that is under way, and for its parameters by name:

    learned = x.context.learned("relu")
    axis = learned.constant("axis", lambda: channel_axis(x))
    weight = learned.parameter("direction", (channels, channels), x.components, uniform)

In the dry run they are made and registered on the innermost module that calls, ``relu_direction_0``, ``relu_direction_1``, … in
the order of its calls. Later passes, also of copies and in graphs, find them there again; a module that runs several times in
one pass uses the same ones each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.tensor.protocols import DryRun

Initialise = Callable[[Tensor], Any]
"""Fills a tensor in place."""

CONSTANTS = "learned_constants"
"""An attribute of modules: the values that the dry run has found."""


@dataclass(frozen=True)
class LearnedCall:
    """One call of an operation in one run of a module.

    Attributes:
        name: of the operation, "relu" say.
        owner: the module that holds what is learned.
        index: which call of that name it is while the module runs, from 0.
        plan: the dry run that is under way, None in ordinary use.
    """

    name: str
    owner: nn.Module
    index: int
    plan: DryRun | None

    def parameter(self, key: str, shape: Sequence[int], like: Tensor, initialise: Initialise) -> Tensor:
        """The learned tensor of that name and shape; made in the dry run, in the dtype and on the device of `like`."""
        name, shape = f"{self.name}_{key}_{self.index}", tuple(shape)
        if self.plan is not None:
            return self.plan.learned.get(self.owner, name, shape, like, initialise)
        found: Tensor | None = getattr(self.owner, name, None)
        if found is None or tuple(found.shape) != shape:
            held = "there is none" if found is None else f"it has shape {tuple(found.shape)}"
            raise NoRuleError(
                f"call {self.index + 1} of {self.name} in this module needs a learned parameter of shape {shape}, but {held}: "
                "in the dry run the module made other calls. Which calls a module makes must not depend on its input; revise "
                "again with an example of this kind, or put what is repeated into a module of its own"
            )
        return found

    def constant(self, key: str, find: Callable[[], Any]) -> Any:
        """A plain value that the dry run finds and later passes are given."""
        name = f"{self.name}_{key}_{self.index}"
        if self.plan is not None:
            self.owner.__dict__.setdefault(CONSTANTS, {})[name] = find()
        held: dict[str, Any] = self.owner.__dict__.get(CONSTANTS, {})
        return held[name] if name in held else find()
