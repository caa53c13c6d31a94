"""Calling compiled loops on torch tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from reqnn.kernels.threads import threads_of_torch

if TYPE_CHECKING:  # numba is imported at the first call of a loop
    from reqnn.kernels.compile import Loop

enabled = os.environ.get("REQNN_KERNELS", "on").lower() not in ("off", "0", "no", "false")
"""Whether compiled loops run at all; the environment variable REQNN_KERNELS=off switches them off."""


_started = False  # whether loops have run on several threads in this process or the one that it was forked from


def _in_child() -> None:
    """One thread from here on: threads do not survive a fork, and OpenMP hangs or ends a process that asks for them again."""
    if _started:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """Inside this context compiled loops run, or do not."""
    global enabled
    before, enabled = enabled, on
    try:
        yield
    finally:
        enabled = before


def loops_run_on(x: Tensor) -> bool:
    """Whether compiled loops can run on this tensor now: a plain one on the CPU, in float32 or float64, outside of graphs."""
    if type(x) is not Tensor or x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return False
    return enabled and plain_torch_now()


def plain_torch_now() -> bool:
    """Whether nothing traces, transforms or casts what is computed: no graph, no functorch transform, no autocast."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return not torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda")


def run(loop: Loop, *arguments: Any) -> None:
    """Call a loop on as many threads as torch uses; numbers take the dtype of the first tensor."""
    values: list[Any] = []
    for value in arguments:
        if isinstance(value, Tensor):
            values.append((value.detach() if value.requires_grad else value).numpy())
        else:
            values.append(values[0].dtype.type(value) if isinstance(value, float) else value)
    if torch.get_num_threads() == 1:
        loop.alone(*values)
        return
    global _started
    _started = True
    with threads_of_torch():
        loop.shared(*values)
