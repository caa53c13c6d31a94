"""Where in the user's own code something happened."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch
from torch import nn

_OURS = str(Path(__file__).parents[1])
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
    for frame in frames():
        filename = frame.f_code.co_filename
        if _is_users(filename):
            code = linecache.getline(filename, frame.f_lineno).strip()
            return f"{filename}:{frame.f_lineno}" + (f": {code}" if code else "")
    return "an unknown line"


def enclosing_module(known: dict[int, str]) -> str | None:
    """The name of the innermost module on the stack, for messages; `known` maps id(module) to its name."""
    for frame in frames():
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in known:
            return known[id(module)]
    return None
