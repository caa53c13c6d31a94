"""Calling compiled loops on torch tensors."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor


def run_loop(module: str, name: str, *arguments: Any) -> None:
    """Call a loop of ``reqnn.nn.<module>`` on as many threads as torch uses; numbers take the dtype of the first tensor."""
    import numba

    arrays = [value.detach().numpy() if isinstance(value, Tensor) else value for value in arguments]
    dtype = arrays[0].dtype.type
    before = numba.get_num_threads()
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    try:
        loop = getattr(importlib.import_module(f"reqnn.nn.{module}"), name)
        loop(*(dtype(value) if isinstance(value, float) else value for value in arrays))
    finally:
        numba.set_num_threads(before)
