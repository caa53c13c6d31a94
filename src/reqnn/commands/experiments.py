"""`reqnn paper`, `demo`, `bench` …: run by the folder `experiments` of a clone, which is not part of the package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reqnn.errors import InputError

MOVED = (
    *("paper", "compare", "bench", "bench-align", "autoencoders", "export-weights", "demo", "reconstruct"),
    *("data-make", "data-download"),
)
"""Commands that ``python -m experiments`` runs: `reqnn paper` …, `reqnn data make` and `reqnn data download`."""

ROOT = Path(__file__).resolve().parents[3]


def from_clone(module: str) -> Any:
    """A module of the folder `experiments`; None if this is no clone."""
    if not (ROOT / "experiments" / "__main__.py").is_file():
        return None
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"experiments.{module}")


def hand_over(arguments: Sequence[str]) -> int | None:
    """Run an experiment, if one is named; return the exit code."""
    for size in (1, 2):
        name = "-".join(arguments[:size])
        if len(arguments) >= size and name in MOVED:
            if (experiments := from_clone("__main__")) is not None:
                return int(experiments.main([name, *arguments[size:]]))
            what = f"reqnn {' '.join(arguments[:size])} is not part of the package"
            raise InputError(f"{what}; run it from a clone of its repository: python -m experiments {name}")
    return None
