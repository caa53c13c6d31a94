"""Peak memory of a call, and calls in fresh processes."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def in_fresh_process(function: str, request: Record, seconds: float) -> Record:
    """The result of a function in a fresh process, or why there is none (killed, failed, too slow).

    Args:
        function: its full name; takes the request as keyword arguments and returns a value for JSON.
    """
    module, _, name = function.rpartition(".")
    code = f"import json, sys; from {module} import {name}; print(json.dumps({name}(**json.loads(sys.argv[1]))))"
    command = [sys.executable, "-c", code, json.dumps(request)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # wherever we are, it finds this clone
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return {"peak_bytes": None, "skipped": f"takes longer than {seconds:g} s"}
    if done.returncode < 0:
        why = "probably out of memory" if done.returncode == -9 else "someone stopped it"
        return {"peak_bytes": None, "skipped": f"the process was ended by signal {-done.returncode}: {why}"}
    if done.returncode > 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"peak_bytes": None, "skipped": f"failed: {last}"}
    result: Record = json.loads(done.stdout.strip().splitlines()[-1])
    return result


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
