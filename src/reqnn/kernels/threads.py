"""How many threads kernels run on: as many as torch, which keeps its own number."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def threads_of_torch() -> Iterator[None]:
    """Let numba use as many threads as torch does, for a while.

    When numba starts its threads, at the first question about them, it sets OpenMP's number for all, torch included: so
    torch is asked first, and gets its number back.
    """
    threads = torch.get_num_threads()
    numba: Any = importlib.import_module("numba")
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        numba.set_num_threads(before)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
