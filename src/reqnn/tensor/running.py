"""Which modules are running: a stack that forward hooks push to and pop from, one for each pass and thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

_BARE = ("torch.nn.modules.activation", "torch.nn.modules.pooling")


@dataclass(frozen=True, eq=False)
class Running:
    """One run of a module.

    Attributes:
        module: the module.
        calls: how often it has called operations with learned parameters, by their names.
    """

    module: nn.Module
    calls: dict[str, int] = field(default_factory=dict)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[Running] = []


_thread = _Thread()


@contextmanager
def fresh_stack() -> Iterator[None]:
    """A pass of its own: what runs outside of it, or was left there by an interrupt, is not seen in it."""
    before, _thread.stack = _thread.stack, []
    try:
        yield
    finally:
        _thread.stack = before


def follow(model: nn.Module) -> list[RemovableHandle]:
    """Put the hooks on every module within a model that does not have them yet; what removes these again."""
    handles = []
    for module in model.modules():
        if enter_hook not in module._forward_pre_hooks.values():
            handles.append(module.register_forward_pre_hook(enter_hook, prepend=True))
            handles.append(module.register_forward_hook(leave_hook, always_call=True))
    return handles


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that passes by what other threads run: a module may be shared, a pass is not."""
    owner = threading.get_ident()
    return lambda *args: hook(*args) if threading.get_ident() == owner else None


def enter_hook(module: nn.Module, args: Any) -> None:
    """A forward pre-hook: the module runs from here on."""
    if not torch.compiler.is_dynamo_compiling():
        _thread.stack.append(Running(module))


def leave_hook(module: nn.Module, args: Any, output: Any) -> None:
    """A forward hook, called where the module raises, too: it runs no more."""
    if not torch.compiler.is_dynamo_compiling() and _thread.stack and _thread.stack[-1].module is module:
        _thread.stack.pop()


def owner_of_call() -> Running | None:
    """The innermost module that is running; a bare activation or pooling hands on to the module that calls it.

    One ``nn.ReLU()`` may serve in several places of a forward, which are as different as several ``F.relu``.
    """
    for running in reversed(_thread.stack):
        if not any(kind.__module__.startswith(_BARE) for kind in type(running.module).__mro__):
            return running
    return _thread.stack[-1] if _thread.stack else None


def run_of(module: nn.Module) -> Running:
    """The innermost run of a module; one that has just begun, where it is not running."""
    return next((running for running in reversed(_thread.stack) if running.module is module), Running(module))


def name_of_running(names: dict[int, str]) -> str | None:
    """The name of the innermost module that is running and has one; `names` maps id(module) to it."""
    return next((names[id(running.module)] for running in reversed(_thread.stack) if id(running.module) in names), None)
