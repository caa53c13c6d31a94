"""Training and evaluation: `fit` trains, `load_run` gives back what was trained, `evaluate` turns the objects."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Evaluation": "evaluate",
    "Run": "run",
    "TrainConfig": "config",
    "accuracy_by_angle": "evaluate",
    "evaluate": "evaluate",
    "fit": "loop",
    "load_run": "run",
    "predict": "predict",
    "preset": "presets",
    "recalibrate": "recalibrate",
    "synchronise": "sync",
}

__all__ = [
    "Evaluation",
    "Run",
    "TrainConfig",
    "accuracy_by_angle",
    "evaluate",
    "fit",
    "load_run",
    "predict",
    "preset",
    "recalibrate",
    "synchronise",
]

if TYPE_CHECKING:
    from reqnn.train.config import TrainConfig
    from reqnn.train.evaluate import Evaluation, accuracy_by_angle, evaluate
    from reqnn.train.loop import fit
    from reqnn.train.predict import predict
    from reqnn.train.presets import preset
    from reqnn.train.recalibrate import recalibrate
    from reqnn.train.run import Run, load_run
    from reqnn.train.sync import synchronise


def __getattr__(name: str) -> Any:
    """Import on first use: the command line reads the settings and must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reqnn.train' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"reqnn.train.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
