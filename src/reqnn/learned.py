"""What rules learn: parameters for calls that have none of their own, such as ``F.relu`` in a forward.

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
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reqnn.dispatch import quaternions
from reqnn.errors import NoRuleError
from reqnn.trace import frames

if TYPE_CHECKING:
    from reqnn.context import Context

Initialise = Callable[[Tensor], Any]
"""Fills a tensor in place."""

REPLACED = "_replaced"
"""An attribute of modules outside of the network that one of its modules runs."""

_PARAMETERS, _CONSTANTS = "learned_parameters", "learned_constants"
"""Attributes of modules: the names of the parameters that rules have asked for, and the values that the dry run has found."""

_BARE = ("torch.nn.modules.activation", "torch.nn.modules.pooling")


@dataclass(frozen=True)
class LearnedCall:
    """One call of an operation in one run of a module.

    Attributes:
        name: of the operation, "relu" say.
        owner: the module that holds what is learned.
        index: which call of that name it is while the module runs, from 0.
        context: of the pass.
    """

    name: str
    owner: nn.Module
    index: int
    context: Context

    def parameter(self, key: str, shape: Sequence[int], like: Tensor, initialise: Initialise) -> Tensor:
        """The learned tensor of that name and shape; made in the dry run, in the dtype and on the device of `like`."""
        name, shape = f"{self.name}_{key}_{self.index}", tuple(shape)
        if self.context.plan is not None:
            return self.context.plan.learned.get(self.owner, name, shape, like, initialise)
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
        held: dict[str, Any] = self.owner.__dict__.setdefault(_CONSTANTS, {})
        name = f"{self.name}_{key}_{self.index}"
        if self.context.plan is not None:
            held[name] = find()
        return held[name] if name in held else find()


@dataclass(frozen=True, eq=False)
class Learned:
    """A parameter that a rule has asked for: who holds it, under which name, and how it begins."""

    owner: nn.Module
    key: str
    initialise: Initialise


class LearnedParameters:
    """All that rules have asked for in a dry run, by their names in the model.

    Args:
        name: (module, key) → the full name of a parameter.
    """

    def __init__(self, name: Callable[[nn.Module, str], str]) -> None:
        self._name = name
        self._made: dict[str, Learned] = {}
        self.used: set[str] = set()

    def begin(self) -> None:
        """Start a pass."""
        self.used.clear()

    def get(self, owner: nn.Module, key: str, shape: tuple[int, ...], like: Tensor, initialise: Initialise) -> Tensor:
        """A parameter, made where there is none of that shape yet."""
        name, held = self._name(owner, key), owner._parameters.get(key)
        if held is not None and tuple(held.shape) != shape and name in self.used:
            raise NoRuleError(
                f"the learned parameter {name} has shape {tuple(held.shape)} in one run of its module and {shape} in another: "
                "a module that runs twice must meet features of one width"
            )
        if held is None or tuple(held.shape) != shape:
            if not any(learned.owner is owner for learned in self._made.values()):
                owner.register_forward_pre_hook(count_calls_hook, prepend=True, with_kwargs=True)
            held = nn.Parameter(like.new_empty(shape))
            initialise(held)
            owner.register_parameter(key, held)
            owner.__dict__.setdefault(_PARAMETERS, {})[key] = None
            self._made[name] = Learned(owner, key, initialise)
        self.used.add(name)
        return held

    def forget_unused(self, used: set[str]) -> None:
        """Take away what only passes before the last one have asked for."""
        for name in [name for name in self._made if name not in used]:
            learned = self._made.pop(name)
            learned.owner._parameters.pop(learned.key, None)
            learned.owner.__dict__[_PARAMETERS].pop(learned.key, None)

    def initialise(self) -> None:
        """Give every parameter the values that it begins with."""
        with torch.no_grad():
            for learned in self._made.values():
                learned.initialise(learned.owner.get_parameter(learned.key))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes, for the report."""
        return {name: tuple(learned.owner.get_parameter(learned.key).shape) for name, learned in self._made.items()}


def learned_call(context: Context, name: str, owner: nn.Module | None = None) -> LearnedCall:
    """The call of that name that is under way."""
    owner = owner_of_call() if owner is None else owner
    if owner is None:
        raise NoRuleError(
            f"the rule set '{context.rules.name}' learns parameters for {name}, and there is no module to hold them: it serves "
            "in networks that reqnn.revise has revised with it"
        )
    counts = context.calls.setdefault(identity(owner), {})
    index = counts[name] = counts.get(name, -1) + 1
    return LearnedCall(name, owner, index, context)


def owner_of_call() -> nn.Module | None:
    """The innermost module on the stack; a bare activation or pooling hands on to the module that calls it.

    One ``nn.ReLU()`` may serve in several places of a forward, which are as different as several ``F.relu``. A block that
    another one stands for hands on to that.
    """
    from reqnn.module import RevisedModel

    bare = None
    for frame in frames():
        module = frame.f_locals.get("self")
        if isinstance(module, RevisedModel):
            break
        if isinstance(module, nn.Module) and not module.__dict__.get(REPLACED):
            if not any(kind.__module__.startswith(_BARE) for kind in type(module).__mro__):
                return module
            bare = bare if bare is not None else module
    return bare


def hand_over(before: nn.Module, now: nn.Module) -> None:
    """Give a module what rules have learned for the one whose place it takes."""
    names = list(before.__dict__.get(_PARAMETERS, ()))
    for name in names:
        now.register_parameter(name, before.get_parameter(name))
    if names:
        now.__dict__[_PARAMETERS] = dict.fromkeys(names)
        now.__dict__[_CONSTANTS] = dict(before.__dict__.get(_CONSTANTS, {}))
        now.register_forward_pre_hook(count_calls_hook, prepend=True, with_kwargs=True)


def identity(module: nn.Module) -> int:
    """What is the same for a module and for the proxies that stand for it while a graph is traced: they share its dict."""
    return id(module.__dict__)


def count_calls_hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
    """A forward pre-hook: the calls within a module are counted anew each time it runs."""
    x = next(quaternions((args, kwargs)), None)
    if x is not None:
        x.context.calls.pop(identity(module), None)
