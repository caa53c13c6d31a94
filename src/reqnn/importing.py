"""Import what a user names: MODULE:NAME or path/to/file.py:NAME. A class of a network, a function, a rule set."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from reqnn.errors import InputError, did_you_mean


def find(target: str) -> Any:
    """What ``MODULE:NAME`` or ``path/to/file.py:NAME`` names; the current directory is searched first."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InputError(f"{target!r} names no class; write MODULE:CLASS or path/to/file.py:CLASS")
    from torch import nn

    found: Any = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            networks = [key for key, value in vars(found).items() if isinstance(value, type) and issubclass(value, nn.Module)]
            listed = f"; its networks are {', '.join(networks[:8])}" if networks else ""
            raise InputError(f"{place} has no '{name}'{did_you_mean(part, dir(found)) or listed}")
        found = getattr(found, part)
    return found


def build(target: str, kwargs: dict[str, Any]) -> Any:
    """The network of a class or function that is named so, built with keyword arguments; or the network that is named."""
    from torch import nn

    model = find(target)
    needed = "a class or function that returns an nn.Module is needed"
    if not isinstance(model, nn.Module):
        if not callable(model):
            raise InputError(f"{target} is a {type(model).__name__}; {needed}")
        try:
            model = model(**kwargs)
        except Exception as error:
            given, what = f" with {kwargs}" if kwargs else "", f"{type(error).__name__}: {error}"
            raise InputError(f"{target} cannot be built{given} ({what}); give its arguments with --options") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"{target} returns a {type(model).__name__}; {needed}")
    return model


def check_named_by_file(target: str, where: str) -> None:
    """`InputError` unless code that a file names, not the user, is defined in a .py file below the current directory.

    Weights are data: loading a file from somewhere must not call any function of any module.
    """
    place, _, name = target.rpartition(":")
    if not place:
        return
    path = Path(place if place.endswith(".py") else f"{place.replace('.', '/')}.py").resolve()
    own = path.is_file() and path.is_relative_to(Path.cwd()) and "site-packages" not in path.parts
    module = _module(place) if own else None
    found = None if module is None or module.__file__ != str(path) else vars(module).get(name)
    if getattr(found, "__module__", None) not in (path.stem, place, "reqnn.rules.registry"):  # the last: a RuleSet
        raise InputError(
            f"{where} names the code {target}, which is not defined in a file below the current directory; run this where "
            "the training was started, and only with code that you trust"
        )


def _module(place: str) -> ModuleType:
    path = Path(place).resolve() if place.endswith(".py") else None
    if path is not None and not path.is_file():
        raise InputError(f"there is no file {place}")
    for folder in (Path.cwd(), *([path.parent] if path else [])):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        if path is None:
            return importlib.import_module(place)
        known = sys.modules.get(path.stem)
        if known is not None and getattr(known, "__file__", None) == str(path):
            return known
        spec: Any = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            where = "the current directory is searched, or name a file: path/to/file.py:CLASS"
            raise InputError(f"no module is named {place!r}; {where}") from error
        raise InputError(f"{place} needs the module {error.name!r}, which is not installed here") from error
    except Exception as error:
        raise InputError(f"importing {place} fails ({type(error).__name__}: {error})") from error
