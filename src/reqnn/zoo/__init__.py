"""The networks of `reqnn.models` by name, as they are or revised."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from reqnn.models.registry import build_model, example_points, model_entry
from reqnn.revision import revise
from reqnn.rules import RuleSet, get_rules

__all__ = ["create_model", "recipe_for"]


def create_model(
    name: str,
    equivariant: bool = False,
    num_classes: int = 40,
    points: torch.Tensor | None = None,
    init: str = "fresh",
    rules: Any = "paper",
    **options: Any,
) -> nn.Module:
    """Build a registered model, or ``my_models.py:Net``, ordinary or revised into its rotation-equivariant quaternion network.

    `options` go to the model (width, k, npoint, dropout, …). `points` (B, N, 3), `init` and `rules` go to `reqnn.revise`;
    without `points` the example is a small random cloud. `num_classes` is ignored by models that do not classify.
    """
    rule_set = get_rules(rules)
    revised = equivariant and rule_set.name != "frames"  # which runs the ordinary network
    model = build_model(name, revised, num_classes, **options)
    if not equivariant:
        return model
    example = example_points(model) if points is None else points
    recipe, own = recipe_for(name, rules), ":" in name
    return revise(model, example, init=init, rules=rule_set, vector_axis=-1, check=own, **recipe)


def recipe_for(name: str, rules: str | RuleSet) -> dict[str, Any]:
    """The arguments of `reqnn.revise` for a model by a rule set; a set that extends another has those of that one."""
    entry, rule_set = model_entry(name), get_rules(rules)
    if rule_set.name == "frames":
        return {}
    while rule_set.parent is not None and rule_set.name not in entry.recipes:
        rule_set = rule_set.parent
    return entry.recipe_for(rule_set.name)
