"""Where in the user's own code something happened."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch import nn

_OURS = str(Path(__file__).parents[1])
_DISPATCH = str(Path(__file__).with_name("dispatch.py"))
_TORCH = str(Path(torch.__file__).parent)


def frames() -> Iterator[FrameType]:
    """The frames of the call stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_users(filename: str) -> bool:
    """Neither torch's nor einops' nor ours; the networks that we ship count as a user's."""
    if filename.startswith(_OURS):
        return filename.startswith(f"{_OURS}/models")
    return not filename.startswith((_TORCH, "<frozen")) and "/einops/" not in filename


def user_frame() -> str:
    """``file:line: code`` of the innermost line that is neither ours nor torch's."""
    return next((_line(f, f.f_lineno) for f in frames() if _is_users(f.f_code.co_filename)), "an unknown line")


def _line(frame: FrameType, number: int) -> str:
    filename = frame.f_code.co_filename
    code = linecache.getline(filename, number).strip()
    return f"{filename}:{number}" + (f": {code}" if code else "")


def user_functions(stack: Iterable[FrameType] | None = None) -> tuple[str, ...]:
    """Keys of the user's plain functions that are running, innermost first, up to the first method of a module."""
    found = []
    for frame in frames() if stack is None else stack:
        code = frame.f_code
        if isinstance(frame.f_locals.get("self"), nn.Module):
            break
        if _is_users(code.co_filename) and not code.co_name.startswith("<"):
            found.append(function_key(frame.f_globals.get("__name__", ""), code))
    return tuple(found)


def function_key(home: str, code: CodeType) -> str:
    """The name of a function that no other has: its module, its qualified name, its first line."""
    return f"{home}.{code.co_qualname}:{code.co_firstlineno}"


def place_of_error(error: BaseException, known: dict[int, str]) -> tuple[str, str | None, str, None, tuple[str, ...]]:
    """What `NoRuleError.located` takes: the torch function, the layer, the innermost line of the user's, and functions."""
    operation, layer, location = "this call", None, "an unknown line"
    for frame, number in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in known:
            layer = known[id(module)]
        if _is_users(frame.f_code.co_filename):
            location = _line(frame, number)
        if frame.f_code.co_filename.startswith(_DISPATCH) and frame.f_code.co_name == "call":
            operation = str(frame.f_locals.get("name", operation))
    stack = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return operation, layer, location, None, user_functions(reversed(stack))


def enclosing_module(known: dict[int, str]) -> str | None:
    """The name of the innermost module on the stack, for messages; `known` maps id(module) to its name."""
    for frame in frames():
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in known:
            return known[id(module)]
    return None
