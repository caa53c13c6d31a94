"""Rotation-equivariant, permutation-invariant networks for 3D point clouds, revised from ordinary ones.

net = reqnn.revise(model, points)      # the user's own network, not rewritten
net.eval()(points @ R.T)               # == net(points), up to rounding
print(reqnn.audit(net, points))        # measured, layer by layer
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reqnn import defaults
from reqnn.version import __version__ as __version__

_HOMES = {
    "Alignment": "reqnn.alignment",
    "ExportError": "reqnn.errors",
    "InputError": "reqnn.errors",
    "NoRuleError": "reqnn.errors",
    "QuaternionTensor": "reqnn.tensor",
    "RevisedModel": "reqnn.revision.module",
    "SelfCheckError": "reqnn.errors",
    "align": "reqnn.alignment",
    "audit": "reqnn.auditing",
    "collate": "reqnn.points",
    "create_model": "reqnn.zoo",
    "embed": "reqnn.deploy",
    "export": "reqnn.deploy",
    "get_rules": "reqnn.rules",
    "list_models": "reqnn.models",
    "list_weights": "reqnn.pretrained",
    "load": "reqnn.pretrained",
    "module_rule": "reqnn.rules",
    "predict": "reqnn.deploy",
    "revise": "reqnn.revision.revise",
    "rotate_features": "reqnn.revision.features",
    "rule": "reqnn.rules",
}
_NAMESPACES = ("data", "models", "nn", "points", "quaternion", "rules", "train")

__all__ = [
    "Alignment",
    "ExportError",
    "InputError",
    "NoRuleError",
    "QuaternionTensor",
    "RevisedModel",
    "SelfCheckError",
    "align",
    "audit",
    "collate",
    "create_model",
    "data",
    "embed",
    "export",
    "get_rules",
    "list_models",
    "list_weights",
    "load",
    "models",
    "module_rule",
    "nn",
    "points",
    "predict",
    "quaternion",
    "revise",
    "rotate_features",
    "rule",
    "rules",
    "train",
]


def _find_rules(name: str) -> Any:
    return importlib.import_module("reqnn.rules").get_rules(name)


defaults.find_rules = _find_rules

if TYPE_CHECKING:
    from reqnn import data, models, nn, points, quaternion, rules, train
    from reqnn.alignment import Alignment, align
    from reqnn.auditing import audit
    from reqnn.deploy import embed, export, predict
    from reqnn.errors import ExportError, InputError, NoRuleError, SelfCheckError
    from reqnn.models import list_models
    from reqnn.points import collate
    from reqnn.pretrained import list_weights, load
    from reqnn.revision.features import rotate_features
    from reqnn.revision.module import RevisedModel
    from reqnn.revision.revise import revise
    from reqnn.rules import get_rules, module_rule, rule
    from reqnn.tensor import QuaternionTensor
    from reqnn.zoo import create_model


def __getattr__(name: str) -> Any:
    """Import on first use: torch is heavy, and ``reqnn --help`` must not wait for it."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _NAMESPACES:
        value = importlib.import_module(f"reqnn.{name}")
    else:
        raise AttributeError(f"module 'reqnn' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
