"""What rules learn: parameters for calls that have none of their own, such as ``F.relu`` in a forward.

Rules ask for them by `reqnn.tensor.learned_call`; in the dry run they are made and registered here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.tensor.learned_call import CONSTANTS, Initialise

_PARAMETERS = "learned_parameters"
"""An attribute of modules: the names of the parameters that rules have asked for."""


class LearnedParameters:
    """All that rules have asked for in a dry run, by their names in the model.

    Args:
        name: (module, key) → the full name of a parameter.
    """

    def __init__(self, name: Callable[[nn.Module, str], str]) -> None:
        self._name = name
        self._made: dict[str, tuple[nn.Module, str, Initialise]] = {}  # who holds it, as what, and how it begins
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
            held = nn.Parameter(like.new_empty(shape))
            initialise(held)
            owner.register_parameter(key, held)
            owner.__dict__.setdefault(_PARAMETERS, {})[key] = None
            self._made[name] = owner, key, initialise
        self.used.add(name)
        return held

    def forget_unused(self, used: set[str]) -> None:
        """Take away what only passes before the last one have asked for."""
        for name in [name for name in self._made if name not in used]:
            owner, key, _ = self._made.pop(name)
            owner._parameters.pop(key, None)
            owner.__dict__[_PARAMETERS].pop(key, None)

    def initialise(self) -> None:
        """Give every parameter the values that it begins with."""
        with torch.no_grad():
            for owner, key, initialise in self._made.values():
                initialise(owner.get_parameter(key))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes, for the report."""
        return {name: tuple(owner.get_parameter(key).shape) for name, (owner, key, _) in self._made.items()}


def has_learned(module: nn.Module) -> bool:
    """Whether rules have learned parameters, or found constants, for a module."""
    return bool(module.__dict__.get(_PARAMETERS) or module.__dict__.get(CONSTANTS))


def hand_over(before: nn.Module, now: nn.Module) -> None:
    """Give a module what rules have learned for the one whose place it takes."""
    names = list(before.__dict__.get(_PARAMETERS, ()))
    for name in names:
        now.register_parameter(name, before.get_parameter(name))
    if has_learned(before):
        now.__dict__[_PARAMETERS] = dict.fromkeys(names)
        now.__dict__[CONSTANTS] = dict(before.__dict__.get(CONSTANTS, {}))
