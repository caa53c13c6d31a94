"""Rules, and sets of rules.

A rule says what a torch function does to quaternion tensors. It is found by the function's name, so that ``torch.relu``,
``x.relu()`` and ``F.relu`` are one rule, and in-place forms (``relu_``, ``inplace=True``) come with it. A set of rules is a
value: `revise(rules=…)` takes a name or a set, and a set can extend another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any, TypeVar

from torch import nn

from reqnn.errors import InputError
from reqnn.tensor.protocols import Rule

F = TypeVar("F", bound=Callable[..., Any])


def arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> SimpleNamespace:
    """The arguments of a call of a torch function by their names, its defaults filled in."""
    bound = signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return SimpleNamespace(**bound.arguments)


TABLE1 = (
    "Convolution",
    "ReLU",
    "Batch-normalization",
    "Max-pooling",
    "Dropout",
    "Farthest point sampling",
    "Grouping (k-NN)",
    "Grouping (ball query)",
    "Density estimation",
    "3D coordinates weighting",
    "Graph construction",
)
"""The rows of the paper's Table 1, in its order."""


@dataclass
class RuleSet:
    """Named functions → rules, named modules → builders, and the constants that the rules read.

    Attributes:
        name: what `revise(rules=…)` calls it.
        parent: the set that is asked where this one has no rule.
        options: constants, such as the ``c`` of the ReLU rule.
    """

    name: str
    parent: RuleSet | None = None
    options: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, Rule] = field(default_factory=dict, repr=False)
    modules: dict[type[nn.Module], Callable[..., nn.Module]] = field(default_factory=dict, repr=False)

    def rule(
        self, *targets: str | Callable[..., Any], row: str = "", extension: bool = False, linear: bool = False
    ) -> Callable[[F], F]:
        """Decorate a function that replaces the named torch functions."""

        def register(function: F) -> F:
            for target in targets:
                name = target if isinstance(target, str) else target.__name__
                self.functions[name] = Rule(name, function, row or "user", extension, linear)
            return function

        return register

    def each(self, *names: str, **kind: Any) -> Callable[[F], F]:
        """Decorate one function for several torch functions; it is given the name of the one that is called first."""

        def register(function: F) -> F:
            for name in names:
                self.rule(name, **kind)(partial(function, name))
            return function

        return register

    def gathered(self, *names: str) -> Callable[[F], F]:
        """Decorate the form that rules of this set have on gathered storage; it takes the same arguments."""

        def register(function: F) -> F:
            for name in names:
                rule = self.find(name)
                if rule is None:
                    raise InputError(f"the rule set '{self.name}' has no rule '{name}' whose gathered form this could be")
                self.functions[name] = replace(rule, gathered=function)
            return function

        return register

    def module(self, kind: type[nn.Module]) -> Callable[[F], F]:
        """Decorate a function (module, x) → module that builds the replacement of a whole module that meets quaternions."""

        def register(function: F) -> F:
            self.modules[kind] = function
            return function

        return register

    def find(self, name: str) -> Rule | None:
        """The rule for a function of that name, the parent's where this set has none."""
        rule = self.functions.get(name)
        return rule if rule is not None or self.parent is None else self.parent.find(name)

    def find_module(self, kind: type[nn.Module]) -> Callable[..., nn.Module] | None:
        """The builder for a module class or the nearest of its bases."""
        for base in kind.__mro__:
            original = base.__dict__.get("_revised_from", base)
            if original in self.modules:
                return self.modules[original]
        return None if self.parent is None else self.parent.find_module(kind)

    def option(self, name: str) -> Any:
        """A constant of the set."""
        if name in self.options or self.parent is None:
            return self.options[name]
        return self.parent.option(name)

    def with_options(self, **options: Any) -> RuleSet:
        """The same rules with other constants, for example ``paper.with_options(c="mean")``."""
        known = self.option_names()
        for name in options:
            if name not in known:
                raise InputError(f"the rule set '{self.name}' has no option '{name}'; it has: {', '.join(sorted(known))}")
        # A child: it has the rules of this set, also those still to come, and this set has none of those that are added to it.
        return RuleSet(self.name, parent=self, options={**self.options, **options})

    def option_names(self) -> set[str]:
        """The constants that there are."""
        return set(self.options) | (self.parent.option_names() if self.parent else set())

    def __deepcopy__(self, memo: Mapping) -> RuleSet:
        return self

    def __reduce__(self) -> tuple:
        known = BUILT_IN.get(self.name)
        if known is self or (known is not None and self.parent is known and not (self.functions or self.modules)):
            return restore_rules, (self.name, self.options)
        return RuleSet, (self.name, self.parent, self.options, self.functions, self.modules)


BUILT_IN: dict[str, RuleSet] = {}
"""The sets of `reqnn.rules` by their names."""


def restore_rules(name: str, options: dict[str, Any]) -> RuleSet:
    """A pickled rule set."""
    found = BUILT_IN[name]
    return found if found.options == options else found.with_options(**options)
