"""The networks of `reqnn.models` by name, as they are or revised."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from reqnn.models.registry import build_model, example_points, model_entry
from reqnn.revision import revise
from reqnn.rules import RuleSet, get_rules
from reqnn.zoo.autoencoder_frame import MODULE_RULES

__all__ = ["create_model", "rules_for"]


def create_model(
    name: str,
    equivariant: bool = False,
    num_classes: int = 40,
    points: torch.Tensor | None = None,
    init: str = "fresh",
    rules: Any = "paper",
    **options: Any,
) -> nn.Module:
    """Build a registered model, ordinary or revised into its rotation-equivariant quaternion network.

    `options` go to the model (width, k, npoint, dropout, …). `points` (B, N, 3), `init` and `rules` go to `reqnn.revise`;
    without `points` the example is a small random cloud. `num_classes` is ignored by models that do not classify.
    """
    frames = get_rules(rules).name == "frames"  # runs the ordinary network
    model = build_model(name, equivariant and not frames, num_classes, **options)
    if not equivariant:
        return model
    rule_set = rules_for(model, rules)
    recipe = {} if frames else model_entry(name).recipe_for(rule_set.name)
    example = example_points(model) if points is None else points
    return revise(model, example, init=init, rules=rule_set, vector_axis=-1, check=False, **recipe)


def rules_for(model: nn.Module, rules: str | RuleSet) -> RuleSet:
    """The rule set by which a network of the zoo is revised: an autoencoder brings rules for its latent and its decoder."""
    rule_set = get_rules(rules)
    if rule_set.name == "frames" or not any(isinstance(module, tuple(MODULE_RULES)) for module in model.modules()):
        return rule_set
    return RuleSet(rule_set.name, parent=rule_set, modules=dict(MODULE_RULES))
