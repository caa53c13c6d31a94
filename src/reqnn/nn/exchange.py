"""The one place where a module becomes one of another class."""

from __future__ import annotations

from torch import nn


def exchange_class(module: nn.Module, other: nn.Module | type[nn.Module]) -> None:
    """Make a module another one in place, so that its name, its users and its hooks stay.

    Args:
        module: what is changed.
        other: a module whose class and attributes it takes, training mode aside; or a class, for which it keeps its own.
    """
    if isinstance(other, nn.Module):
        kept = {name: value for name, value in module.__dict__.items() if "hooks" in name}
        other.train(module.training)
        module.__dict__ = {**other.__dict__, **kept}
        other = type(other)
    module.__class__ = other
