"""Training and evaluation: `fit` trains, `load_run` loads a trained network, `evaluate` tests it on rotated objects."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Evaluation": "evaluation",
    "ReconstructionEvaluation": "reconstruction",
    "Run": "run",
    "TrainConfig": "config",
    "accuracy_by_angle": "evaluation",
    "chamfer_distance": "distance",
    "earth_movers_distance": "distance",
    "evaluate": "evaluation",
    "evaluate_reconstruction": "reconstruction",
    "fit": "loop",
    "load_run": "run",
    "predict": "prediction",
    "preset": "presets",
    "recalibrate": "calibration",
    "synchronise": "sync",
}

__all__ = [
    "Evaluation",
    "ReconstructionEvaluation",
    "Run",
    "TrainConfig",
    "accuracy_by_angle",
    "chamfer_distance",
    "earth_movers_distance",
    "evaluate",
    "evaluate_reconstruction",
    "fit",
    "load_run",
    "predict",
    "preset",
    "recalibrate",
    "synchronise",
]

if TYPE_CHECKING:
    from reqnn.train.calibration import recalibrate
    from reqnn.train.config import TrainConfig
    from reqnn.train.distance import chamfer_distance, earth_movers_distance
    from reqnn.train.evaluation import Evaluation, accuracy_by_angle, evaluate
    from reqnn.train.loop import fit
    from reqnn.train.prediction import predict
    from reqnn.train.presets import preset
    from reqnn.train.reconstruction import ReconstructionEvaluation, evaluate_reconstruction
    from reqnn.train.run import Run, load_run
    from reqnn.train.sync import synchronise


def __getattr__(name: str) -> Any:
    """Import on first use: the command line reads the settings and must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reqnn.train' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"reqnn.train.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
