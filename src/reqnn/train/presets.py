"""Presets: the paper's settings, and settings for minutes on two cores."""

from __future__ import annotations

from typing import Any

from reqnn.errors import InputError
from reqnn.train.config import TrainConfig

PRESETS = {
    "paper": "the settings published with the paper, 400 epochs; for GPUs",
    "quick": "fewer points, narrower, 20 epochs: minutes on two cores for small data sets",
}
"""Preset → description."""

TASK_OF = {
    "pointnet_reconstruction": "reconstruction",
    "autoencoder": "reconstruction",  # in the folder `experiments`
    "dgcnn_parts": "segmentation",
    "pointnet2_parts": "segmentation",
    "pointnet_parts": "segmentation",
    "plane_fit": "normals",
    "dgcnn": "classification",
}
"""Network → its task, classification for all others; the first of a task is its default."""

CONSTANTS: dict[str, dict[str, Any]] = {"paper": {"c": 0.1}, "full": {"unit": "pool"}}
"""Rule set → constants with which networks learn fastest (docs/experiments.md); default for others."""
_C_OF = {"pointnet2": 1.0}  # docs/experiments.md

_PAPER: dict[str, Any] = {"points": 1024, "epochs": 400, "batch": 32, "momentum": 0.9, "weight_decay": 1e-4, "recalibrate": 0}
_SGD = {"optimizer": "sgd", "schedule": "cosine", "smoothing": 0.2, "lr": 0.1, "min_lr": 0.001}
_ADAM = {"optimizer": "adam", "schedule": "constant", "smoothing": 0.2, "lr": 1e-4}
_PAPER_OF = {"pointconv": {**_SGD, "lr": 0.01, "min_lr": 0.0001}, "pointnet2": _ADAM, "pointnet2_msg": _ADAM}

_QUICK: dict[str, Any] = {"batch": 32, "optimizer": "adamw", "schedule": "onecycle", "clip": 5.0}
_QUICK_RECONSTRUCTION = {**_QUICK, "points": 512, "epochs": 10, "lr": 2e-3, "weight_decay": 1e-4}
_QUICK |= {"points": 256, "epochs": 20, "lr": 3e-3, "weight_decay": 0.01, "scale": 0.2, "jitter": 0.01}

_SAMPLED = 1024
"""Points per cloud for networks that sample the farthest ones themselves."""
# No label smoothing or dropout: after few epochs they cost ten points (docs/experiments.md).
_HALF: dict[str, Any] = {"width": 0.5, "dropout": 0.0}
_TWO_LEVELS = {**_HALF, "npoint": [128, 32], "radius": [0.3, 0.6], "nsample": [16, 16]}
_QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "dgcnn": {**_HALF, "k": 16, "sample": 256},
    "pointnet": _HALF,
    "pointnet2": {**_TWO_LEVELS, "sample": 256, "radius": [0.5, 1.0], "nsample": [32, 32]},
    "pointnet2_msg": {
        **_TWO_LEVELS,
        "radius": [[0.15, 0.3, 0.5], [0.3, 0.6, 0.9]],
        "nsample": [[8, 8, 16], [8, 8, 16]],
    },
    "pointconv": {**_HALF, "sample": 256, "npoint": [128, 32], "nsample": [16, 16], "bandwidth": [0.15, 0.3, 0.6]},
    "point2sequence": {**_HALF, "width": 0.25, "npoint": 64, "nsample": [8, 16, 24, 32]},
    "rscnn": _TWO_LEVELS,
    "dgcnn_parts": {**_HALF, "k": 16},
    "pointnet2_parts": _TWO_LEVELS,
    "pointnet_parts": _HALF,
    "kd_network": {"depth": 8},
    "prin": {"width": 0.5, "bandwidth": 8, "shells": 16},
    "plane_fit": {"width": 0.25},
    "qe_capsule": {"width": 0.25, "npoint": 64, "sharpness": 100.0},
}
"""Network → its options."""


def preset(name: str, model: str | None = None, **settings: Any) -> TrainConfig:
    """The settings of a preset for a network; `settings` override them.

    The default network is DGCNN, for reconstruction that of the paper; the default task is that of the network.
    """
    if name not in PRESETS:
        raise InputError(f"no preset is named {name!r}; there are {', '.join(PRESETS)}")
    task = settings.get("task") or TASK_OF.get(model or "", "classification")
    model = model or next((known for known, its in TASK_OF.items() if its == task), "dgcnn")
    if name == "paper":
        # Networks not in the paper get DGCNN's settings; it states none for reconstruction, which gets its PointNet++'s.
        values = {**_PAPER, **({**_ADAM, "smoothing": 0.0} if task == "reconstruction" else _PAPER_OF.get(model, _SGD))}
    elif task == "reconstruction":
        values = dict(_QUICK_RECONSTRUCTION)
    else:
        options = dict(_QUICK_OPTIONS.get(model, {}))
        if settings.get("points", _SAMPLED) <= options.get("sample", 0):
            options.pop("sample", None)  # nothing to sample from
        constants = dict(CONSTANTS.get(settings.get("rules", "paper"), {}))
        if "c" in constants:
            constants["c"] = _C_OF.get(model, constants["c"])
        values = {**_QUICK, "options": options, "rule_options": constants}
        values |= {"points": _SAMPLED} if {"sample", "npoint"} & options.keys() else {}
        values |= {"points": 1024, "batch": 4} if task == "normals" else {}  # a target per point: few clouds make a batch
    if settings.get("optimizer") == "muon":
        values |= {"lr": 0.01, "weight_decay": 0.01}
    return TrainConfig(**{"model": model, "task": task, **values, **settings})
