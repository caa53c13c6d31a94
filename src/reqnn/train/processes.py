"""What a run computes on: devices, processes and threads; random states, and interruption."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reqnn.errors import InputError, Stopped
from reqnn.extras import need
from reqnn.train.batches import FORWARD, derived_seed
from reqnn.train.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def connect(config: TrainConfig) -> Fabric:
    """Start the processes, or join those of `torchrun`."""
    fabric_class = need("lightning_fabric").Fabric
    devices, nodes = config.devices, 1
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    shares = devices * nodes * config.accumulate
    if config.batch % shares:
        raise InputError(f"batch is {config.batch}; it must divide by processes × accumulate = {shares}")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    accelerator = _accelerator(config.accelerator)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*GPU available but not used.*")
        fabric: Fabric = fabric_class(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy="ddp" if devices * nodes > 1 else "auto",
            precision=resolved_precision(config, accelerator),
        )
        fabric.launch()
    return fabric


def _accelerator(name: str) -> str:
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return next(kind for kind, present in found.items() if present)
    if not found[name]:
        available = ", ".join(kind for kind in found if found[kind])
        raise InputError(f"accelerator is {name}, but torch finds none here; available: {available}")
    return name


def resolved_precision(config: TrainConfig, accelerator: str) -> str:
    """The precision on a device. bfloat16 needs no loss scaling; float16 is not offered, since squared norms overflow."""
    if config.precision == "auto":
        return "bf16-mixed" if accelerator == "cuda" and torch.cuda.is_bf16_supported() else "32-true"
    return config.precision


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
