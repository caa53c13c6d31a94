"""Peak memory of inference and of a training step, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from experiments.bench.settings import Settings
from experiments.bench.variants import FUSED, MODES, ORIGINAL, TRAINING, VARIANTS

Record = dict[str, Any]
NOTHING: Record = {"peak_bytes": None, "saved_bytes": None}
SECONDS_TO_START = 120  # importing, building and compiling, on a slow machine


def measure_memory(settings: Settings, note: Callable[[str], None]) -> list[Record]:
    """Records of all networks, variants and modes, at the target sizes."""
    records: list[Record] = []
    for model, mode, variant in comparisons(settings):
        for batch, points in settings.target_sizes():
            note(f"memory of {model}, {variant}, {mode}, {batch} × {points} points")
            where = {"model": model, "variant": variant, "mode": mode, "batch": batch, "points": points}
            request = {**where, "threads": settings.threads, "seed": settings.seed, "width": settings.width}
            limit = SECONDS_TO_START + 4 * settings.max_seconds
            records.append({"what": "memory", **where, **in_fresh_process("experiments.bench.probe.probe", request, limit)})
    return records


def comparisons(settings: Settings) -> list[tuple[str, str, str]]:
    """Network, mode and variant: all of them, or, in brief, the training step of one network before and after."""
    if settings.brief:
        return [(settings.models[0], TRAINING, variant) for variant in (ORIGINAL, FUSED)]
    return [(model, mode, variant) for model in settings.models for mode in MODES for variant in VARIANTS]


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
        return {**NOTHING, "skipped": f"takes longer than {seconds:g} s"}
    if done.returncode < 0:
        why = "probably out of memory" if done.returncode == -9 else "someone stopped it"
        return {**NOTHING, "skipped": f"the process was ended by signal {-done.returncode}: {why}"}
    if done.returncode > 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {**NOTHING, "skipped": f"failed: {last}"}
    result: Record = json.loads(done.stdout.strip().splitlines()[-1])
    return result
