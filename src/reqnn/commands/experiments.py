"""`reqnn paper`, `compare`, `bench` …: run by the folder `experiments` of a clone, which is not part of the package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from reqnn.errors import InputError

MOVED = ("paper", "compare", "bench", "bench-align", "autoencoders", "export-weights")
"""Commands that ``python -m experiments`` runs."""

ROOT = Path(__file__).resolve().parents[3]


def hand_over(arguments: Sequence[str]) -> int:
    """Run an experiment if this is a clone; return the exit code."""
    if not (ROOT / "experiments" / "__main__.py").is_file():
        where = f"run it from a clone of its repository: python -m experiments {arguments[0]}"
        raise InputError(f"reqnn {arguments[0]} is not part of the package; {where}")
    sys.path.insert(0, str(ROOT))
    code: int = importlib.import_module("experiments.__main__").main(arguments)
    return code
