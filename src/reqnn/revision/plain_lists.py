"""Layers that a network keeps in plain Python lists, which `nn.Module` does not see: in the copy they are registered."""

from __future__ import annotations

from typing import Any

from torch import nn


def find_plain_lists(model: nn.Module) -> list[tuple[str, str]]:
    """(module, attribute) of lists and tuples of layers that are registered nowhere."""
    known = {id(module) for module in model.modules()}
    return [
        (name, attribute)
        for name, module in model.named_modules()
        for attribute, value in vars(module).items()
        if _holds_layers(value) and any(id(layer) not in known for layer in _layers(value))
    ]


def register_plain_lists(model: nn.Module, found: list[tuple[str, str]]) -> None:
    """Put a `ModuleList` in the place of each, as `find_plain_lists` returns them."""
    for name, attribute in found:
        module = model.get_submodule(name)
        setattr(module, attribute, _registered(module.__dict__.pop(attribute)))


def _holds_layers(value: Any) -> bool:
    """A list or tuple, possibly of such, with layers and nothing else."""
    return type(value) in (list, tuple) and bool(value) and all(isinstance(x, nn.Module) or _holds_layers(x) for x in value)


def _layers(value: Any) -> list[nn.Module]:
    return [layer for x in value for layer in ([x] if isinstance(x, nn.Module) else _layers(x))]


def _registered(value: Any) -> nn.ModuleList:
    return nn.ModuleList(x if isinstance(x, nn.Module) else _registered(x) for x in value)
