"""Run all parts of a benchmark."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from experiments.bench import kernels, variants
from experiments.bench.growth import growth_of_models, measure_growth
from experiments.bench.kernels import measure_kernels
from experiments.bench.limit import measure_limit
from experiments.bench.memory import measure_memory
from experiments.bench.models import measure_models, measure_rules
from experiments.bench.settings import WHAT, Settings
from experiments.bench.targets import targets
from reqnn.provenance import provenance

Record = dict[str, Any]
PARTS: dict[str, Callable[[Settings, Callable[[str], None]], list[Record]]] = {
    "models": measure_models,
    "rules": measure_rules,
    "kernels": measure_kernels,
    "limit": measure_limit,
    "growth": measure_growth,
    "memory": measure_memory,
}
assert tuple(PARTS) == WHAT


def run(settings: Settings, note: Callable[[str], None], before: Record | None = None) -> Iterator[Record]:
    """The results so far, after each part; parts that are not measured now are kept from the results `before`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    records: list[Record] = [r for r in (before or {}).get("records", ()) if r["what"] not in settings.what]
    made = {part: how for part, how in (before or {}).get("parts", {}).items() if part not in settings.what}
    try:
        for part in WHAT:
            if part in settings.what:
                records += PARTS[part](settings, note)
                made[part] = {"commit": provenance()["commit"], "settings": asdict(settings)}
                extra = growth_of_models(records) if "growth" in settings.what else []
                yield {**results(settings, records + extra), "parts": made}
    finally:
        torch.set_num_threads(threads)


def results(settings: Settings, records: list[Record]) -> Record:
    """Records with settings, targets, machine and versions."""
    made = provenance()
    for name in ("numba", "scipy"):
        try:
            made["versions"][name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "settings": asdict(settings),
        "meaning": {**variants.MEANING, **variants.RULE_SETS, **variants.MODES, **kernels.MEANING},
        "targets": [target.to_dict() for target in targets(records)],
        "records": records,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        **made,
    }


def cpu_name() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
