"""Presets: the paper's settings, and settings for minutes on two cores."""

from __future__ import annotations

from typing import Any

from reqnn.errors import InputError
from reqnn.train.config import TrainConfig

_PAPER: dict[str, Any] = {"points": 1024, "epochs": 400, "batch": 32, "momentum": 0.9, "weight_decay": 1e-4, "smoothing": 0.2}
_PAPER |= {"recalibrate": 0}
_SGD_01 = {"optimizer": "sgd", "schedule": "cosine", "lr": 0.1, "min_lr": 0.001}
_SGD_001 = {"optimizer": "sgd", "schedule": "cosine", "lr": 0.01, "min_lr": 0.0001}
_ADAM = {"optimizer": "adam", "schedule": "constant", "lr": 1e-4}
_PAPER_OF = {"dgcnn": _SGD_01, "pointconv": _SGD_001, "pointnet2": _ADAM, "pointnet2_msg": _ADAM}

_ONE_CYCLE: dict[str, Any] = {"batch": 32, "optimizer": "adamw", "schedule": "onecycle", "clip": 5.0}
# No label smoothing or dropout: after few epochs they cost ten points (docs/experiments.md).
_QUICK = {**_ONE_CYCLE, "points": 256, "epochs": 20, "lr": 3e-3, "weight_decay": 0.01, "scale": 0.2, "jitter": 0.01}
_SAMPLED = 1024
"""Points per cloud for networks that sample the farthest ones themselves."""
_QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "dgcnn": {"k": 16, "sample": 256},
    "pointnet": {},
    "pointnet2": {"npoint": [128, 32], "radius": [0.3, 0.6], "nsample": [16, 16]},
    "pointnet2_msg": {
        "npoint": [128, 32],
        "radius": [[0.15, 0.3, 0.5], [0.3, 0.6, 0.9]],
        "nsample": [[8, 8, 16], [8, 8, 16]],
    },
    "pointconv": {"npoint": [128, 32], "nsample": [16, 16]},
    "point2sequence": {"width": 0.25, "npoint": 64, "nsample": [8, 16, 24, 32]},
    "rscnn": {"npoint": [128, 32], "radius": [0.3, 0.6], "nsample": [16, 16]},
    "dgcnn_parts": {"k": 16},
    "pointnet2_parts": {"npoint": [128, 32], "radius": [0.3, 0.6], "nsample": [16, 16]},
    "pointnet_parts": {},
}
"""Network → options beside half the width and no dropout."""
_QUICK_WITHOUT_DROPOUT: dict[str, dict[str, Any]] = {
    "kd_network": {"depth": 8},
    "prin": {"width": 0.5, "bandwidth": 8, "shells": 16},
    "plane_fit": {"width": 0.25},
    "qe_capsule": {"width": 0.25, "npoint": 64, "sharpness": 100.0},
}
"""Network that has no dropout → options."""

_MUON: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.01}
"""Settings of the presets with the optimizer Muon."""

CONSTANTS: dict[str, dict[str, Any]] = {"paper": {"c": 0.1}, "full": {"unit": "pool"}}
"""Rule set → constants with which networks learn fastest (docs/experiments.md); default for others."""

RECONSTRUCTING = ("pointnet_reconstruction", "autoencoder")
"""Networks that output clouds; their default task is reconstruction. The second one is in the folder `experiments`."""

SEGMENTING = ("dgcnn_parts", "pointnet2_parts", "pointnet_parts")
"""Networks with an output per point; their default task is segmentation."""

_NORMALS: dict[str, Any] = {"points": 1024, "batch": 4}  # each point has a target: few clouds make a batch

# The paper states neither settings nor loss: those of its PointNet++.
_PAPER_RECONSTRUCTION: dict[str, Any] = {**_PAPER, **_ADAM, "smoothing": 0.0}
_QUICK_RECONSTRUCTION = {**_ONE_CYCLE, "points": 512, "epochs": 10, "lr": 2e-3, "weight_decay": 1e-4}

DEFAULT_MODELS = {"reconstruction": "pointnet_reconstruction", "segmentation": "dgcnn_parts", "normals": "plane_fit"}
"""Task → its network if none is named; DGCNN for classification."""

PRESETS = {
    "paper": "the settings published with the paper, 400 epochs; for GPUs",
    "quick": "fewer points, narrower, 20 epochs: minutes on two cores for small data sets",
}
"""Preset → description."""


def _sampled(model: str, points: int) -> dict[str, Any]:
    """The options of a network, and more points if it samples them itself."""
    options = dict(_QUICK_WITHOUT_DROPOUT.get(model, {}))
    if model in _QUICK_OPTIONS:
        options = {"width": 0.5, "dropout": 0.0, **_QUICK_OPTIONS[model]}
    if points <= options.get("sample", 0):
        options.pop("sample", None)  # nothing to sample from
    return {"points": _SAMPLED, "options": options} if {"sample", "npoint"} & options.keys() else {"options": options}


def _task(model: str | None) -> str:
    """The task of a network."""
    known = {"reconstruction": RECONSTRUCTING, "segmentation": SEGMENTING, "normals": ("plane_fit",)}
    return next((task for task, models in known.items() if model in models), "classification")


def preset(name: str, model: str | None = None, **settings: Any) -> TrainConfig:
    """The settings of a preset for a network; `settings` override them.

    The default network is DGCNN, for reconstruction that of the paper; the default task is that of the network.
    """
    wanted = settings.get("task") or _task(model)
    model = model or DEFAULT_MODELS.get(wanted, "dgcnn")
    if wanted == "reconstruction" and name in PRESETS:
        values: dict[str, Any] = _PAPER_RECONSTRUCTION if name == "paper" else _QUICK_RECONSTRUCTION
    elif name == "paper":
        # Networks not in the paper get DGCNN's settings.
        values = {**_PAPER, **_PAPER_OF.get(model, _SGD_01)}
    elif name == "quick":
        values = {**_QUICK, **_sampled(model, settings.get("points", _SAMPLED))}
        values |= _NORMALS if wanted == "normals" else {}
        values["rule_options"] = dict(CONSTANTS.get(settings.get("rules", "paper"), {}))
    else:
        raise InputError(f"no preset is named {name!r}; there are {', '.join(PRESETS)}")
    if settings.get("optimizer") == "muon":
        values = {**values, **_MUON}
    return TrainConfig(**{"model": model, "task": wanted, **values, **settings})
