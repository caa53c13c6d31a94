"""Calling compiled loops on torch tensors."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from reqnn.points import kernels
from reqnn.points.kernels.threads import threads_of_torch


def loops_run_on(x: Tensor) -> bool:
    """Whether compiled loops can run on this tensor, now: a plain one on the CPU, in float32 or float64, outside of graphs."""
    if type(x) is not Tensor or x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or torch.is_autocast_enabled("cpu"):
        return False
    return kernels.available()


def run_loop(module: str, name: str, *arguments: Any) -> None:
    """Call a loop of ``reqnn.nn.<module>`` on as many threads as torch uses; numbers take the dtype of the first tensor."""
    arrays = [value.detach().numpy() if isinstance(value, Tensor) else value for value in arguments]
    dtype = arrays[0].dtype.type
    with threads_of_torch():
        loop = getattr(importlib.import_module(f"reqnn.nn.{module}"), name)
        loop(*(dtype(value) if isinstance(value, float) else value for value in arrays))
