"""`reqnn paper`, `bench`, `data make` …: run by the folder `experiments` of a clone, which is not part of the package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reqnn.errors import InputError

MOVED = ("paper", "compare", "bench", "bench-align", "autoencoders", "export-weights")
"""Commands that ``python -m experiments`` runs."""

ROOT = Path(__file__).resolve().parents[3]


def from_clone(module: str, name: str, command: str) -> Any:
    """A module of the folder `experiments`, if this is a clone."""
    if not (ROOT / "experiments" / "__main__.py").is_file():
        raise InputError(f"{name} is not part of the package; run it from a clone of its repository: {command}")
    sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"experiments.{module}")


def hand_over(arguments: Sequence[str]) -> int:
    """Run an experiment; return the exit code."""
    code: int = from_clone("__main__", f"reqnn {arguments[0]}", f"python -m experiments {arguments[0]}").main(arguments)
    return code
