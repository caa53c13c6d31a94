"""Small networks of the zoo under each rule set, for the tests."""

import torch

from reqnn.models import list_models
from reqnn.models.registry import model_entry
from reqnn.rules import get_rules
from reqnn.zoo import create_model
from test_audit import OPTIONS

CLASSIFIERS = [name for name in list_models(revisable=True) if "num_classes" in model_entry(name).options]
CHEAP = {"vector-neurons": {"frame_width": 8}, "full": {"products": 6}}
"""Rule set → options that make its networks small."""


def small(rules, name, **options):
    """A small network by these rules, always with the same weights."""
    torch.manual_seed(0)
    chosen = get_rules(rules).with_options(**CHEAP.get(rules, {}), **options)
    return create_model(name, equivariant=True, num_classes=10, rules=chosen, width=1 / 8, **OPTIONS.get(name, {}))
