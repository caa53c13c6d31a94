"""Training and evaluation: `fit` trains, `load_run` loads a trained network, `evaluate` tests it on rotated objects."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reqnn.train.config import TrainConfig as TrainConfig
    from reqnn.train.distance import chamfer_distance as chamfer_distance
    from reqnn.train.distance import earth_movers_distance as earth_movers_distance
    from reqnn.train.evaluation import Evaluation as Evaluation
    from reqnn.train.evaluation import NormalsEvaluation as NormalsEvaluation
    from reqnn.train.evaluation import ReconstructionEvaluation as ReconstructionEvaluation
    from reqnn.train.evaluation import SegmentationEvaluation as SegmentationEvaluation
    from reqnn.train.evaluation import accuracy_by_angle as accuracy_by_angle
    from reqnn.train.evaluation import evaluate as evaluate
    from reqnn.train.evaluation import evaluate_normals as evaluate_normals
    from reqnn.train.evaluation import evaluate_reconstruction as evaluate_reconstruction
    from reqnn.train.evaluation import evaluate_segmentation as evaluate_segmentation
    from reqnn.train.evaluation import pca_normals as pca_normals
    from reqnn.train.loop import fit as fit
    from reqnn.train.prediction import predict as predict
    from reqnn.train.prediction import recalibrate as recalibrate
    from reqnn.train.presets import preset as preset
    from reqnn.train.run import Run as Run
    from reqnn.train.run import load_run as load_run
    from reqnn.train.sync import synchronise as synchronise

_HOMES = {
    "config": "TrainConfig",
    "distance": "chamfer_distance earth_movers_distance",
    "evaluation": "Evaluation accuracy_by_angle evaluate NormalsEvaluation evaluate_normals pca_normals "
    "ReconstructionEvaluation evaluate_reconstruction SegmentationEvaluation evaluate_segmentation",
    "loop": "fit",
    "prediction": "predict recalibrate",
    "presets": "preset",
    "run": "Run load_run",
    "sync": "synchronise",
}
__all__ = sorted(" ".join(_HOMES.values()).split())


def __getattr__(name: str) -> Any:
    """Import on first use: the command line reads the settings and must not wait for torch."""
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'reqnn.train' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(f"reqnn.train.{home}"), name)
    return value
