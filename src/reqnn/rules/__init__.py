"""Rules for revising a network, by name: ``get_rules("paper")``."""

from __future__ import annotations

from typing import Any

from reqnn.errors import InputError
from reqnn.rules.registry import TABLE1, Rule, RuleSet

__all__ = ["TABLE1", "Rule", "RuleSet", "get_rules", "module_rule", "rule"]


def _sets() -> dict[str, RuleSet]:
    from reqnn.rules.full import full
    from reqnn.rules.paper import paper
    from reqnn.rules.vector_neurons import vector_neurons

    return {"paper": paper, "vector-neurons": vector_neurons, "full": full}


def get_rules(rules: str | RuleSet) -> RuleSet:
    """A rule set by its name, or the set itself."""
    if isinstance(rules, RuleSet):
        return rules
    sets = _sets()
    if rules not in sets:
        raise InputError(f"no rule set is named '{rules}'; there are: {', '.join(sorted(sets))}")
    return sets[rules]


def built_in(name: str) -> RuleSet | None:
    """The set of ours of that name, None where there is none."""
    return _sets().get(name)


def restore_rules(name: str, options: dict[str, Any]) -> RuleSet:
    """A pickled rule set."""
    found = get_rules(name)
    return found if found.options == options else found.with_options(**options)


def rule(*targets: Any, rules: str | RuleSet = "paper") -> Any:
    """Register a rule of your own for a torch function, by decorating a function with the same arguments.

    Example:
        >>> @reqnn.rule(torch.hypot)
        ... def hypot(a, b):
        ...     return (a * a + b * b).sqrt()
    """
    return get_rules(rules).rule(*targets, row="user", extension=True)


def module_rule(kind: Any, rules: str | RuleSet = "paper") -> Any:
    """Register a stand-in for a module class of your own: decorate ``build(module, x) -> module``."""
    return get_rules(rules).module(kind)
