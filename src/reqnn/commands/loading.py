"""Build a user's network from the command line, with example inputs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reqnn.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn


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

    model = find(target)
    if not isinstance(model, nn.Module):
        try:
            model = model(**kwargs)
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
        if path is None:
            return importlib.import_module(place)
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

    from reqnn.data.surfaces import surfaces
    from reqnn.revision.inputs import read_inputs

    empty = tuple(torch.zeros(shape) for shape in shapes)
    inputs, _ = read_inputs(empty if len(empty) > 1 else empty[0], vector_axis, scalars)
    generator = torch.Generator().manual_seed(seed)
    filled: list[Tensor] = []
    for shape, axis in zip(shapes, inputs.axes, strict=True):
        if axis is None:
            filled.append(torch.rand(shape, generator=generator))
            continue
        batch, inner = (shape[0], shape[1:]) if len(shape) > 2 else (1, shape)
        rest = [size for i, size in enumerate(inner, start=len(shape) - len(inner)) if i != axis]
        count, vectors = torch.Size(rest).numel(), shape[axis] - scalars
        more = torch.randn(batch, count, max(vectors - 6, 0), generator=generator)
        whole = torch.cat([*surfaces(batch, count, seed, torch.float32), more], dim=-1)[..., :vectors]
        whole = torch.cat([whole, torch.rand(batch, count, scalars, generator=generator)], dim=-1).unflatten(1, rest)
        filled.append((whole if len(shape) > 2 else whole[0]).movedim(-1, axis).contiguous())
        scalars = 0  # the first cloud has them
    return tuple(filled) if len(filled) > 1 else filled[0]
