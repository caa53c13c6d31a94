"""Models by name: each registers its builder and the arguments that `reqnn.revise` needs for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.nn as nn

from ..errors import InputError, did_you_mean
from ..importing import build, find

Builder = TypeVar("Builder", bound=Callable[..., nn.Module])


@dataclass(frozen=True)
class Entry:
    """A registered model."""

    build: Callable[..., nn.Module]  # the ordinary network
    fixed: dict[str, Any] = field(default_factory=dict)  # options that the name decides (`pointnet_stn`: stn=True)
    equivariant_options: dict[str, Any] = field(default_factory=dict)  # defaults that differ where it is to be revised
    recipe: dict[str, Any] = field(default_factory=dict)  # keyword arguments for `reqnn.revise`
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)  # rule set → those that are others for it
    revisable: bool = True  # whether the rule sets revise it (`frames` takes any network)

    def recipe_for(self, rules: str) -> dict[str, Any]:
        """The arguments of `reqnn.revise` for the rule set of that name."""
        return self.recipe | self.recipes.get(rules, {})

    @property
    def options(self) -> list[str]:
        """Names of the options that a user may set."""
        return [name for name in inspect.signature(self.build).parameters if name not in self.fixed]


_ENTRIES: dict[str, Entry] = {}


def register(
    name: str,
    *,
    fixed: dict[str, Any] | None = None,
    equivariant_options: dict[str, Any] | None = None,
    recipes: dict[str, dict[str, Any]] | None = None,
    revisable: bool = True,
    **recipe: Any,
) -> Callable[[Builder], Builder]:
    """Register a model under a name; `recipe` is what `reqnn.revise` takes: to_real, coordinates, remove, ….

    `recipes` says by the names of rule sets what is different for them. A network that is not `revisable` is used as it is.
    """

    def decorate(build: Builder) -> Builder:
        if name in _ENTRIES:
            raise InputError(f"a model named {name!r} is already registered: {_ENTRIES[name].build.__qualname__}")
        _ENTRIES[name] = Entry(build, fixed or {}, equivariant_options or {}, recipe, recipes or {}, revisable)
        return build

    return decorate


def list_models(revisable: bool = False) -> list[str]:
    """Names that `reqnn.create_model` takes, sorted; with `revisable` those that it takes with `equivariant=True`."""
    return sorted(name for name, entry in _ENTRIES.items() if entry.revisable or not revisable)


def model_entry(name: str) -> Entry:
    """Look a registered model up, or import ``my_models.py:Net``; an unknown name raises `InputError` with those that exist."""
    if ":" in name:
        return _own_entry(name)
    if name not in _ENTRIES:
        hint = f"; your own is {name}:CLASS" if name.endswith(".py") else did_you_mean(name, _ENTRIES)
        raise InputError(f"no model is named {name!r}; the models are {', '.join(list_models())}{hint}")
    return _ENTRIES[name]


def _own_entry(name: str) -> Entry:
    """A user's class or function; if it is registered, with what that says."""
    found: Any = find(name)
    if not callable(found):
        raise InputError(f"{name} is a {type(found).__name__}; a class of networks, or a function that returns one, is needed")

    def build_own(**options: Any) -> nn.Module:
        network: nn.Module = build(name, options)
        return network

    build_own.__wrapped__ = found  # type: ignore[attr-defined]  # the signature that `inspect` shows
    return next((entry for entry in _ENTRIES.values() if entry.build is found), Entry(build_own))


def build_model(name: str, equivariant: bool = False, num_classes: int = 40, **options: Any) -> nn.Module:
    """Build the ordinary network of a registered model; with the options of the one to be revised where `equivariant`.

    `options` go to the model (width, k, npoint, dropout, …). `num_classes` is ignored by models that do not classify.
    """
    entry = model_entry(name)
    for option in options:
        if option not in entry.options and ":" not in name:  # a user's class may take **options
            hint = did_you_mean(option, entry.options)
            raise InputError(f"{name} has no option {option!r}; its options are {', '.join(entry.options)}{hint}")
    defaults = dict(entry.fixed)
    if "num_classes" in entry.options:
        defaults["num_classes"] = num_classes
    if equivariant:
        defaults |= entry.equivariant_options
    return entry.build(**(defaults | options))


def example_points(model: nn.Module) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return a small cloud that the model accepts, (2, N, 3): the same each time, from a random state of its own.

    A model with `categories` takes a cloud and a one-hot category, (2, categories).
    """
    n = max(32, int(getattr(model, "min_points", 1)) + 1)
    n += n % 3 == 0  # so that only the last axis can be the one that holds vectors
    points = torch.randn(2, n, 3, generator=torch.Generator().manual_seed(0))
    categories = int(getattr(model, "categories", 0))
    return (points, torch.eye(categories)[[0, -1]]) if categories else points
