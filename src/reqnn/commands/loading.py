"""Build a user's network from the command line, with example inputs."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reqnn.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn


def parse_options(text: str, option: str) -> dict[str, Any]:
    """Keyword arguments from a JSON object; its lists become tuples."""
    advice = f"write for example {option} '{{\"k\": 10}}'"
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{option} {text!r} is not JSON ({error}); {advice}") from error
    if not isinstance(value, dict):
        raise InputError(f"{option} {text!r} is not a JSON object; {advice}")
    return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}


def parse_shape(text: str) -> tuple[int, ...]:
    """A shape such as 2,128,3."""
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").strip("()[]").split(",") if part.strip())
    except ValueError:
        shape = ()
    if len(shape) < 2 or min(shape) < 1:
        raise InputError(f"--points {text}: a shape is needed, such as 2,128,3 for two clouds of 128 points")
    return shape


def build(target: str, kwargs: dict[str, Any]) -> nn.Module:
    """The network of ``MODULE:CLASS`` or ``path/to/file.py:CLASS``, built with keyword arguments."""
    from torch import nn

    factory = find(target)
    if isinstance(factory, nn.Module):
        return factory
    try:
        model = factory(**kwargs)
    except Exception as error:
        given, what = f" with {kwargs}" if kwargs else "", f"{type(error).__name__}: {error}"
        raise InputError(f"{target} cannot be built{given} ({what}); give its arguments with --kwargs") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"{target} returns a {type(model).__name__}; a class or function that returns an nn.Module is needed")
    return model


def find(target: str) -> Callable[..., Any]:
    """What ``MODULE:CLASS`` names; the current directory is searched first."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InputError(f"{target!r} names no class; write MODULE:CLASS or path/to/file.py:CLASS")
    found: Any = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{place} has no '{name}'{_instead(found, part)}")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{target} is a {type(found).__name__}; a class or function that returns an nn.Module is needed")
    return found


def _module(place: str) -> ModuleType:
    path = Path(place).resolve() if place.endswith(".py") else None
    if path is not None and not path.is_file():
        raise InputError(f"there is no file {place}")
    for folder in (Path.cwd(), *([path.parent] if path else [])):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(place) if path is None else _module_of_file(path)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            where = "the current directory is searched, or name a file: path/to/file.py:CLASS"
            raise InputError(f"no module is named {place!r}; {where}") from error
        raise InputError(f"{place} needs the module {error.name!r}, which is not installed here") from error
    except Exception as error:
        raise InputError(f"importing {place} fails ({type(error).__name__}: {error})") from error


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _instead(found: Any, wanted: str) -> str:
    """A hint: similar names, or the networks of the module."""
    from torch import nn

    networks = [name for name, value in vars(found).items() if isinstance(value, type) and issubclass(value, nn.Module)]
    return did_you_mean(wanted, dir(found)) or (f"; its networks are {', '.join(networks[:8])}" if networks else "")


def example_inputs(
    shapes: Sequence[tuple[int, ...]], vector_axis: int | None = None, scalars: int = 0, seed: int = 0
) -> Tensor | tuple[Tensor, ...]:
    """Clouds on surfaces in the given shapes: xyz, then normals, then random vectors, then scalars between 0 and 1.

    An input without a vector axis gets random numbers.
    """
    import torch

    from reqnn.revision.inputs import read_inputs

    empty = tuple(torch.zeros(shape) for shape in shapes)
    inputs, _ = read_inputs(empty if len(empty) > 1 else empty[0], vector_axis, scalars)
    generator = torch.Generator().manual_seed(seed)
    filled: list[Tensor] = []
    for shape, axis in zip(shapes, inputs.axes, strict=True):
        if axis is None:
            filled.append(torch.rand(shape, generator=generator))
        else:
            filled.append(_cloud(shape, axis, scalars, seed, generator))
            scalars = 0  # the first cloud has them
    return tuple(filled) if len(filled) > 1 else filled[0]


def _cloud(shape: tuple[int, ...], axis: int, scalars: int, seed: int, generator: Any) -> Tensor:
    import torch

    from reqnn.data.surfaces import surfaces

    batch = shape[0] if len(shape) > 2 else 1
    rest = [size for i, size in enumerate(shape) if i != axis and not (i == 0 and len(shape) > 2)]
    count = torch.Size(rest).numel()
    more = torch.randn(batch, count, max(shape[axis] - scalars - 6, 0), generator=generator)
    vectors = torch.cat([*surfaces(batch, count, seed, torch.float32), more], dim=-1)[..., : shape[axis] - scalars]
    whole = torch.cat([vectors, torch.rand(batch, count, scalars, generator=generator)], dim=-1)
    whole = whole.unflatten(1, rest) if len(shape) > 2 else whole[0]
    return whole.movedim(-1, axis).contiguous()
