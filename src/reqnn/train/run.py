"""A training run: settings, network and results; and another run that starts from its weights."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds
from reqnn.data.files import read_json, reading
from reqnn.errors import InputError
from reqnn.importing import check_named_by_file
from reqnn.models.registry import build_model, model_entry
from reqnn.revision.report import count_parameters
from reqnn.rules import get_rules
from reqnn.train.config import TrainConfig, config_from_dict
from reqnn.train.prediction import evaluating
from reqnn.train.weights import checksum, load_model_tensors, load_tensors, model_tensors, save_tensors
from reqnn.zoo import create_model

BEST, LAST = "best.safetensors", "last.safetensors"

_MOST_SHARE, _SMALL = 16, 20_000_000  # parameters of a network per stored one; what may be built in any case

START = "start.json"
"""The file in a run's folder about the weights it started from."""

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
"""The folder of the pretrained weights, files named NETWORK.RULES.DATA."""

FORMER_NAMES = {
    "best-modelnet40": "dgcnn.full.modelnet40",
    "dgcnn-modelnet40": "dgcnn.paper.modelnet40",
    "dgcnn-3d-mnist": "dgcnn.paper.3d-mnist",
}
"""Names of pretrained weights in version 0.1 → their names now."""


@dataclass
class Run:
    """The result of `fit` and `load_run`."""

    model: nn.Module  # in eval mode, with the weights of the best epoch or of the given file
    config: TrainConfig
    classes: tuple[str, ...]  # output i is the logit of classes[i]; for segmentation these are parts
    metrics: dict[str, Any] = field(default_factory=dict)  # the contents of metrics.json
    folder: Path | None = None
    row: dict[str, float] = field(default_factory=dict)  # of the log, at these weights


def output_names(config: TrainConfig, clouds: PointClouds) -> tuple[str, ...]:
    """What the outputs of a network stand for: the classes, or the parts for segmentation."""
    return clouds.part_names if config.task == "segmentation" else clouds.classes


def build_network(config: TrainConfig, classes: int, categories: int = 0) -> nn.Module:
    """The network of the settings with new weights, seeded; torch's random state is not changed.

    `categories` is the size of its second input, if it has one.
    """
    options, known = _tuples(config.options), model_entry(config.model).options
    if "num_classes" in options:
        raise InputError(f"num_classes cannot be set: the data has {classes} classes")
    for name, value in (("categories", categories), ("num_points", config.points)):  # output clouds have the size of the input
        if name in known:
            options.setdefault(name, value)
    rules = get_rules(config.rules)
    if config.rule_options:
        rules = rules.with_options(**config.rule_options)
    own = ":" in config.model and config.task == "classification"  # is tried on clouds of the size of the training
    points = torch.randn(2, config.points, 3, generator=torch.Generator().manual_seed(0)) if own else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = create_model(config.model, config.equivariant, classes, points, rules=rules, **options)
        if points is not None:
            _check_classifier(network, points, config.model, classes)
    return network


def _check_classifier(network: nn.Module, points: Tensor, name: str, classes: int) -> None:
    """Raise `InputError` unless a user's network takes clouds (2, N, 3) and returns logits."""
    wanted = f"a classifier takes clouds (B, N, 3) and returns logits (B, {classes})"
    try:
        with torch.no_grad(), evaluating(network):
            shape = getattr(network(points), "shape", None)
    except Exception as error:
        raise InputError(f"{name} fails on clouds {tuple(points.shape)} ({error}); {wanted}") from error
    if shape != (2, classes):
        given = f"{name} returns {'no tensor' if shape is None else f'shape {tuple(shape)}'} for two clouds"
        raise InputError(f"{given}; {wanted}: let it take num_classes, or say the number with --options")


def _tuples(value: Any) -> Any:
    """JSON with its lists as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def save_weights(path: Path, model: nn.Module, config: TrainConfig, classes: tuple[str, ...], row: dict[str, float]) -> None:
    """Write weights with the settings of their network, and their row of the log."""
    save_tensors(path, model_tensors(model), {"config": config.to_dict(), "classes": classes, "log": row})


def list_weights() -> list[str]:
    """The names of the pretrained weights, for `reqnn.load`."""
    return sorted(path.stem for path in WEIGHTS.glob("[!.]*.safetensors"))


def weights_file(path: str | Path, weights: str = "best") -> Path:
    """The weights file of a pretrained name or of a run's folder (`best` or `last`), or the file itself."""
    name = FORMER_NAMES.get(str(path), str(path))
    if name in list_weights():
        return WEIGHTS / f"{name}.safetensors"
    path = Path(path).expanduser()
    file = path / f"{weights}.safetensors" if path.is_dir() else path
    if not file.exists():
        raise InputError(f"{path}: there is no {file.name}; give a run's folder or a weights file")
    return file


def _load_weights(file: Path) -> tuple[dict[str, Tensor], TrainConfig, tuple[str, ...], dict[str, float]]:
    """Weights with the settings of their network, the names of its outputs, and their row of the log."""
    tensors, about = load_tensors(file)
    if "config" not in about:
        raise InputError(f"{file} is a checkpoint for --resume; the weights are in {BEST} and {LAST} beside it")
    classes: Any = about.get("classes")
    config, row = about["config"], about.get("log") or {}
    named = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    if not (named and isinstance(config, dict) and isinstance(row, dict)):
        raise InputError(f"{file} is damaged: its record names no settings and classes")
    return tensors, config_from_dict(config, str(file)), tuple(classes), row


def load_run(
    path: str | Path, weights: str = "best", model: nn.Module | None = None, options: dict[str, Any] | None = None
) -> Run:
    """A run from its folder (its `best` or `last` weights), one of its weights files, or the name of pretrained weights.

    The network is built from the settings; if `fit` got your own network, pass it here too. `options` override arguments of
    the network: {"votes": 5}.
    """
    file = weights_file(path, weights)
    tensors, config, classes, row = _load_weights(file)
    config = replace(config, options={**config.options, **(options or {})})
    if model is None:
        config.check_code(str(file))
        with reading(file, "weights"):  # a record can say anything about the network
            # The ordinary network, built without memory, is the yardstick: revising removes at most a few parameters in four.
            with torch.device("meta"):
                ordinary = build_model(config.model, config.equivariant, len(classes), **_tuples(config.options))
            claimed, stored = count_parameters(ordinary), sum(tensor.numel() for tensor in tensors.values())
            if claimed > _MOST_SHARE * stored + _SMALL:
                raise InputError(f"{file} is damaged: its settings are of {claimed:,} parameters, and it holds {stored:,}")
            model = build_network(config, len(classes), len({name.rpartition(" ")[0] for name in classes}))
    if config.precision == "64-true":
        model = model.double()
    load_model_tensors(model, tensors, str(file))
    report = file.parent / "metrics.json"
    metrics = read_json(report, "the metrics of a run") if report.exists() else {"best": row}
    return Run(model.eval(), config, classes, metrics, file.parent, row)


def start_from(network: nn.Module, config: TrainConfig, classes: tuple[str, ...]) -> dict[str, Any]:
    """Load the weights of `config.start_from` into the network; return their checksum and settings, for JSON.

    The network must be built alike, by the same rules. If the number of classes differs, the last layer keeps its new weights.
    """
    source = config.start_from or ""
    file = weights_file(source)
    tensors, trained, classes_before, _ = _load_weights(file)
    check_named_by_file(trained.rules, str(file))
    record = {"weights": checksum(tensors), "config": trained.without_folders()}
    if config.equivariant and config.rules == "frames" and not trained.equivariant:
        tensors = {f"model.{name}": tensor for name, tensor in tensors.items()}  # the ordinary network, now in frames
    before, now = len(classes_before), len(classes)
    for name, own in model_tensors(network).items() if before != now else ():
        if name in tensors and tensors[name].shape == (before, *own.shape[1:]) and own.shape[:1] == (now,):
            tensors[name] = own
    try:
        if config.equivariant and trained.equivariant:  # rules change the meaning of weights, not their shapes
            wanted, found = (f"{some.rules} with {_constants(some)}" for some in (config, trained))
            if wanted != found:
                raise InputError(f"{source} was trained by other rules: {found}, not {wanted}")
        load_model_tensors(network, tensors, source)
    except InputError as error:
        rules = f" --equivariant --rules {trained.rules} --rule-options '{json.dumps(trained.rule_options)}'"
        build = f"--model {trained.model}{rules * trained.equivariant} --options '{json.dumps(trained.options)}'"
        raise InputError(f"{error}. Build it as that one was: {build}") from error
    return record


def _constants(config: TrainConfig) -> dict[str, Any]:
    """All constants of a run's rules, including defaults."""
    rules = get_rules(config.rules).with_options(**config.rule_options)
    return {name: rules.option(name) for name in sorted(rules.option_names() - {"fused"})}
