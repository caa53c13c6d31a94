"""Reproducible runs: threads, deterministic algorithms, random states, interruption."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch

from reqnn.errors import Stopped
from reqnn.train.batches import FORWARD, derived_seed


@contextmanager
def reproducible(threads: int, deterministic: bool = True) -> Iterator[None]:
    """A fixed number of threads and deterministic algorithms; restored at the end, with the random states."""
    before = torch.get_num_threads()
    memory: Any = torch.utils.deterministic
    mode, fill = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - a user's network may draw from it
    torch.set_num_threads(threads)
    if deterministic:
        torch.use_deterministic_algorithms(True)
        memory.fill_uninitialized_memory = False  # it costs a pass over memory
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(mode)
        memory.fill_uninitialized_memory = fill
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed the random numbers of a forward pass by seed, step and process, so that no state has to be saved."""
    derived = derived_seed(seed, FORWARD, step, rank)
    torch.manual_seed(derived)
    np.random.seed(derived % 2**32)  # noqa: NPY002
    random.seed(derived)


class Interruption:
    """Within this context Ctrl-C and SIGTERM set `asked`, so that the current step completes; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise Stopped("interrupted twice: at once, without a checkpoint")
        self.asked = True
