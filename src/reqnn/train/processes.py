"""What a run computes on: devices, processes and threads; random states, interruption, and the lock on its folder."""

from __future__ import annotations

import logging
import os
import platform
import random
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reqnn.data.files import atomic_file
from reqnn.errors import InputError, Stopped
from reqnn.extras import need
from reqnn.train.batches import FORWARD, derived_seed
from reqnn.train.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def connect(config: TrainConfig) -> Fabric:
    """Start the processes, or join those of `torchrun`."""
    devices, nodes = config.devices, 1
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    shares = devices * nodes * config.accumulate
    if config.batch % shares:
        raise InputError(f"batch is {config.batch}; it must divide by processes × accumulate = {shares}")
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    present = [kind for kind in found if found[kind]]
    accelerator = present[0] if config.accelerator == "auto" else config.accelerator
    if accelerator not in present:
        raise InputError(f"accelerator is {accelerator}, but torch finds none here; available: {', '.join(present)}")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*GPU available but not used.*")
        fabric: Fabric = need("lightning_fabric").Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy="ddp" if devices * nodes > 1 else "auto",
            precision=resolved_precision(config, accelerator),
        )
        fabric.launch()
    return fabric


def resolved_precision(config: TrainConfig, accelerator: str) -> str:
    """The precision on a device. bfloat16 needs no loss scaling; float16 is not offered, since squared norms overflow."""
    if config.precision == "auto":
        return "bf16-mixed" if accelerator == "cuda" and torch.cuda.is_bf16_supported() else "32-true"
    return config.precision


@contextmanager
def locked(path: Path) -> Iterator[str | None]:
    """Hold a file lock if it is free: yields None if we hold it, else who does. It is released when the process ends."""
    filelock = need("filelock")
    # the holder is in a file of its own: filelock may empty the lock file
    lock, about = filelock.FileLock(path), path.with_suffix(".holder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        try:
            holder = about.read_text(encoding="utf-8", errors="replace")
        except OSError:
            holder = "another process"
        yield holder
        return
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another folder") from error
    try:
        with atomic_file(about) as partial:
            partial.write_text(f"{platform.node()}, process {os.getpid()}", encoding="utf-8")
        yield None
    finally:
        about.unlink(missing_ok=True)
        lock.release()


@contextmanager
def reproducible(threads: int, deterministic: bool = True) -> Iterator[None]:
    """A fixed number of threads and deterministic algorithms; restored at the end, with the random states."""
    before = torch.get_num_threads()
    memory: Any = torch.utils.deterministic
    mode, fill = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    states = np.random.get_state(), random.getstate()  # noqa: NPY002 - a user's network may draw from it
    torch.set_num_threads(threads)
    if deterministic:
        torch.use_deterministic_algorithms(True)
        memory.fill_uninitialized_memory = False  # it costs a pass over memory
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(mode)
        memory.fill_uninitialized_memory = fill
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed the random numbers of a forward pass by seed, step and process, so that no state has to be saved."""
    derived = derived_seed(seed, FORWARD, step, rank)
    torch.manual_seed(derived)
    np.random.seed(derived % 2**32)  # noqa: NPY002
    random.seed(derived)


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM only add to the list that is yielded, so that the current step completes; a second one stops."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            raise Stopped("interrupted twice: at once, without a checkpoint")
        asked.append(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
