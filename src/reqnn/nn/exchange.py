"""The one place where a module becomes one of another class."""

from __future__ import annotations

from torch import nn


def exchange_class(module: nn.Module, other: nn.Module | type[nn.Module]) -> None:
    """Make a module another one in place, so that its name, its users and its hooks stay.

    It takes the class and attributes of a module, training mode aside; of a class only the class.
    """
    if isinstance(other, nn.Module):
        kept = {name: value for name, value in module.__dict__.items() if "hooks" in name}
        other.train(module.training)
        module.__dict__ = {**other.__dict__, **kept}
        other = type(other)
    module.__class__ = other
