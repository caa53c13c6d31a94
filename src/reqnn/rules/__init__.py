"""Rules for revising a network, by name: ``get_rules("paper")``."""

from __future__ import annotations

from typing import Any

from reqnn.errors import InputError
from reqnn.importing import find
from reqnn.rules.full import full
from reqnn.rules.paper import paper
from reqnn.rules.registry import BUILT_IN, TABLE1, RuleSet
from reqnn.rules.vector_neurons import vector_neurons
from reqnn.tensor.protocols import Rule

__all__ = ["TABLE1", "Rule", "RuleSet", "get_rules", "module_rule", "rule"]

frames = RuleSet("frames")
"""No rules: the network runs as it is, on clouds in their PCA frames (`reqnn.revision.frames`)."""

BUILT_IN |= {"paper": paper, "vector-neurons": vector_neurons, "full": full, "frames": frames}


def get_rules(rules: str | RuleSet) -> RuleSet:
    """A rule set by its name, the user's own by ``my_rules.py:mine``, or the set itself."""
    if isinstance(rules, RuleSet):
        return rules
    if ":" in rules:
        found = find(rules)
        if not isinstance(found, RuleSet):
            raise InputError(f"{rules} is a {type(found).__name__}; a RuleSet is needed (docs/add_a_rule.md)")
        return found
    if rules not in BUILT_IN:
        raise InputError(f"no rule set is named '{rules}'; there are: {', '.join(sorted(BUILT_IN))}")
    return BUILT_IN[rules]


def rule(*targets: Any, rules: str | RuleSet = "paper") -> Any:
    """Register a rule of your own for a torch function, by decorating a function with the same arguments.

    Example:
        >>> @reqnn.rule(torch.hypot)
        ... def hypot(a, b):
        ...     return (a * a + b * b).sqrt()
    """
    return get_rules(rules).rule(*targets, row="user", extension=True)


def module_rule(kind: Any, rules: str | RuleSet = "paper") -> Any:
    """Register the replacement of your own module class: decorate ``build(module, x) -> module``."""
    return get_rules(rules).module(kind)
