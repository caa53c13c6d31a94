"""A finished or running training run: its settings, its network and what it reached."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from reqnn.errors import InputError
from reqnn.models.registry import model_entry
from reqnn.rules import get_rules
from reqnn.train.config import TrainConfig, config_from_dict
from reqnn.train.weights import load_model_tensors, load_tensors, model_tensors, save_tensors
from reqnn.zoo import create_model

BEST, LAST = "best.safetensors", "last.safetensors"


@dataclass
class Run:
    """What `fit` returns and `load_run` reads.

    Attributes:
        model: the network, in eval mode, with the weights of the best epoch (or those of the file that was read).
        config: all settings.
        classes: class names; in classification, output i is the logit of classes[i].
        metrics: what metrics.json holds: the best validation metric and its epoch, the last row of the log, seconds, ….
        folder: the run's folder.
        row: the row of the log that the weights come from.
    """

    model: nn.Module
    config: TrainConfig
    classes: tuple[str, ...]
    metrics: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    row: dict[str, float] = field(default_factory=dict)


def build_network(config: TrainConfig, classes: int) -> nn.Module:
    """The network of the settings with fresh weights, the same for the same seed; torch's random state is left alone."""
    options = {name: _tuples(value) for name, value in config.options.items()}
    if "num_classes" in options:
        raise InputError(f"num_classes is no option to set: the data has {classes} classes")
    if "num_points" in model_entry(config.model).options:
        options.setdefault("num_points", config.points)  # what comes out is as large as what goes in
    rules = get_rules(config.rules)
    if config.rule_options:
        rules = rules.with_options(**config.rule_options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return create_model(config.model, config.equivariant, num_classes=classes, rules=rules, **options)


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def save_weights(path: Path, model: nn.Module, config: TrainConfig, classes: tuple[str, ...], row: dict[str, float]) -> None:
    """Write weights with all that is needed to build their network again, and the row of the log they come from."""
    save_tensors(path, model_tensors(model), {"config": config.to_dict(), "classes": classes, "log": row})


def weights_file(path: str | Path, weights: str = "best") -> Path:
    """The file of the `best` or `last` weights in a run's folder; a weights file stands for itself."""
    path = Path(path)
    file = path / f"{weights}.safetensors" if path.is_dir() else path
    if not file.exists():
        raise InputError(f"{path}: there is no {file.name}; give a run's folder or a weights file")
    return file


def load_run(
    path: str | Path, weights: str = "best", model: nn.Module | None = None, options: dict[str, Any] | None = None
) -> Run:
    """A run from its folder (its `best` or `last` weights), or from one of its weight files.

    The network is built anew from the settings; a network of your own, that `fit` was given, has to be given here, too.
    `options` change how the network is built, where the weights still fit: {"votes": 5}.
    """
    file = weights_file(path, weights)
    tensors, about = load_tensors(file)
    if "config" not in about:
        raise InputError(f"{file} is a checkpoint to go on from; the weights are in {BEST} and {LAST} beside it")
    config, classes = config_from_dict(about["config"], str(file)), tuple(about["classes"])
    config = replace(config, options={**config.options, **(options or {})})
    network = build_network(config, len(classes)) if model is None else model
    if config.precision == "64-true":
        network = network.double()
    load_model_tensors(network, tensors, str(file))
    report = file.parent / "metrics.json"
    metrics = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {"best": about["log"]}
    return Run(network.eval(), config, classes, metrics, file.parent, about["log"] or {})
