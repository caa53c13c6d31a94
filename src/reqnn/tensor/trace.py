"""Where in the user's own code something happened."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

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


def place_of_error(error: BaseException, known: dict[int, str]) -> tuple[str, str | None, str]:
    """Where an exception was raised: the torch function, the layer's name, and the innermost line of the user's."""
    operation, layer, location = "this call", None, "an unknown line"
    for frame, number in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in known:
            layer = known[id(module)]
        if _is_users(frame.f_code.co_filename):
            location = _line(frame, number)
        if frame.f_code.co_filename.startswith(_DISPATCH) and frame.f_code.co_name == "call":
            operation = str(frame.f_locals.get("name", operation))
    return operation, layer, location


def enclosing_module(known: dict[int, str]) -> str | None:
    """The name of the innermost module on the stack, for messages; `known` maps id(module) to its name."""
    for frame in frames():
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in known:
            return known[id(module)]
    return None
