"""Memory of one call in this (fresh) process."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.bench.guard import OutOfMemory, limited_memory
from experiments.bench.models import step
from experiments.bench.variants import TRAINING, build, clouds, infer, train_step
from reqnn.errors import ReqnnError


def peak_above_now(call: Callable[[], Any]) -> int:
    """The peak increase of the resident memory during the call, in bytes."""
    import psutil

    before = int(psutil.Process().memory_info().rss)
    status = Path("/proc/self/status")
    if not status.exists():  # no Linux: the highest ever, which the small warm-up has kept low
        import resource

        call()
        unit = 1 if sys.platform == "darwin" else 1024
        return max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before)
    # getrusage would count what the parent had in memory when it started this process
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    call()
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return max(0, int(line.split()[1]) * 1024 - before)


def give_back_free_memory() -> None:
    """Return the allocator's free memory to the system, if it can: else the next call would seem to need less."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def saved_bytes(network: nn.Module, call: Callable[[], Any]) -> int:
    """Bytes of the tensors that a forward pass saves for backward, each storage once, without parameters and buffers."""
    own = {t.untyped_storage().data_ptr() for t in (*network.parameters(), *network.buffers())}
    sizes: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()  # kept alive by the graph: no address is used twice
        return x.detach()

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        call()
    return sum(sizes.values())


def probe(
    model: str, variant: str, mode: str, batch: int, points: int, threads: int, seed: int, width: float
) -> dict[str, Any]:
    """Peak memory of one call, and what it saves for backward; or why there is none."""
    torch.set_num_threads(threads)
    chosen = build(model, variant, seed, width=width)
    try:
        with chosen.switched(), limited_memory():
            smallest = clouds(2, max(32, int(getattr(chosen.network, "min_points", 1))), seed)
            infer(chosen.network, smallest[0])
            if mode == TRAINING:
                train_step(chosen.network, *smallest)
            call = step(chosen, mode, batch, points, seed)
            chosen.network.zero_grad(set_to_none=True)
            del smallest
            give_back_free_memory()
            peak = peak_above_now(call)
            saved = saved_bytes(chosen.network, call) if mode == TRAINING else 0
    except OutOfMemory as error:
        return {"peak_bytes": None, "saved_bytes": None, "skipped": f"needs more memory than is free ({error})"}
    except ReqnnError as error:
        return {"peak_bytes": None, "saved_bytes": None, "skipped": str(error)}
    return {"peak_bytes": peak, "saved_bytes": saved, "skipped": None}
