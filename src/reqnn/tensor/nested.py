"""Nested arguments and results, walked in one way: by torch's pytrees, and into containers that those do not know."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from torch.utils import _pytree as pytree


def leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """All that is in nested tuples, lists, dicts, namedtuples, dataclasses and subclasses of these."""
    found: list[Any] = []
    for leaf in pytree.arg_tree_leaves(*args, **kwargs):
        inner = _parts(leaf)
        found += [leaf] if inner is None else leaves(*inner.values())
    return found


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with the function's results in place of the leaves."""

    def apply(leaf: Any) -> Any:
        parts = _parts(leaf)
        if parts is None:
            return function(leaf)
        new = {key: map_leaves(function, part) for key, part in parts.items()}
        return leaf if all(new[key] is parts[key] for key in parts) else _with_parts(leaf, new)

    return pytree.tree_map(apply, tree)


def _parts(leaf: Any) -> dict[Any, Any] | None:
    """What is in a container that pytrees do not know, by key, place or name; None where it is none."""
    if isinstance(leaf, dict):
        return dict(leaf)
    if isinstance(leaf, (tuple, list)):
        return dict(enumerate(leaf))
    if hasattr(type(leaf), "__dataclass_fields__"):
        names = [field.name for field in dataclasses.fields(leaf)]
        return {name: getattr(leaf, name) for name in names if hasattr(leaf, name)}
    return None


def _with_parts(leaf: Any, parts: dict[Any, Any]) -> Any:
    """A copy of such a container with other contents; the code of a dataclass that checks them does not run again."""
    if isinstance(leaf, tuple):
        return type(leaf)(parts.values())
    twin = copy.copy(leaf)
    for key, part in parts.items():
        if isinstance(leaf, (dict, list)):
            twin[key] = part
        else:
            object.__setattr__(twin, key, part)
    return twin
