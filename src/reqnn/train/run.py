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
from reqnn.rules import RuleSet, get_rules
from reqnn.train.config import TrainConfig, check_types, config_from_dict
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
    options = {name: _tuples(value) for name, value in config.options.items()}
    if "num_classes" in options:
        raise InputError(f"num_classes cannot be set: the data has {classes} classes")
    if "categories" in model_entry(config.model).options:
        options.setdefault("categories", categories)
    if "num_points" in model_entry(config.model).options:
        options.setdefault("num_points", config.points)  # output clouds have the size of the input
    rules = get_rules(config.rules)
    if config.rule_options:
        rules = rules.with_options(**config.rule_options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if ":" in config.model and config.task == "classification":
            return _own_network(config, classes, rules, options)
        return create_model(config.model, config.equivariant, num_classes=classes, rules=rules, **options)


def _own_network(config: TrainConfig, classes: int, rules: RuleSet, options: dict[str, Any]) -> nn.Module:
    """A user's classifier, tried on clouds of the size of the training."""
    points = torch.randn(2, config.points, 3, generator=torch.Generator().manual_seed(0))
    network = create_model(config.model, config.equivariant, classes, points, rules=rules, **options)
    wanted = f"a classifier takes clouds (B, N, 3) and returns logits (B, {classes})"
    try:
        with torch.no_grad(), evaluating(network):
            shape = getattr(network(points), "shape", None)
    except Exception as error:
        raise InputError(f"{config.model} fails on clouds {tuple(points.shape)} ({error}); {wanted}") from error
    if shape != (2, classes):
        given = f"{config.model} returns {'no tensor' if shape is None else f'shape {tuple(shape)}'} for two clouds"
        raise InputError(f"{given}; {wanted}: let it take num_classes, or say the number with --options")
    return network


def _tuples(value: Any) -> Any:
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


def _load_weights(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, about = load_tensors(file)
    if "config" not in about:
        raise InputError(f"{file} is a checkpoint for --resume; the weights are in {BEST} and {LAST} beside it")
    check_types(_Record, about, str(file))
    if "classes" not in about:
        raise InputError(f"{file} is damaged: its record names no classes")
    return tensors, about


@dataclass
class _Record:
    """The types in the record of a weights file."""

    config: dict[str, Any]
    classes: list[str]
    log: dict[str, Any] | None = None


def load_run(
    path: str | Path, weights: str = "best", model: nn.Module | None = None, options: dict[str, Any] | None = None
) -> Run:
    """A run from its folder (its `best` or `last` weights), one of its weights files, or the name of pretrained weights.

    The network is built from the settings; if `fit` got your own network, pass it here too. `options` override arguments of
    the network: {"votes": 5}.
    """
    file = weights_file(path, weights)
    tensors, about = _load_weights(file)
    config, classes = config_from_dict(about["config"], str(file)), tuple(about["classes"])
    config = replace(config, options={**config.options, **(options or {})})
    if model is None:
        config.check_code(str(file))
    categories = len({name.rpartition(" ")[0] for name in classes})
    network = model
    if network is None:
        with reading(file, "weights"):  # a record can say anything about the network
            _check_size(config, len(classes), sum(tensor.numel() for tensor in tensors.values()), file)
            network = build_network(config, len(classes), categories)
    if config.precision == "64-true":
        network = network.double()
    load_model_tensors(network, tensors, str(file))
    report = file.parent / "metrics.json"
    row = about.get("log") or {}
    metrics = read_json(report, "the metrics of a run") if report.exists() else {"best": row}
    return Run(network.eval(), config, classes, metrics, file.parent, row)


def _check_size(config: TrainConfig, classes: int, stored: int, file: Path) -> None:
    """Raise `InputError` before memory is taken if the settings are of a network far larger than the stored weights.

    The ordinary network, built without memory, is the yardstick: revising it removes at most a few parameters in four.
    """
    options = {name: _tuples(value) for name, value in config.options.items()}
    with torch.device("meta"):
        model = build_model(config.model, config.equivariant, classes, **options)
    claimed = sum(parameter.numel() for parameter in model.parameters())
    if claimed > _MOST_SHARE * stored + _SMALL:
        raise InputError(f"{file} is damaged: its settings are of {claimed:,} parameters, and it holds {stored:,}")


def start_from(network: nn.Module, config: TrainConfig, classes: tuple[str, ...]) -> dict[str, Any]:
    """Load the weights of `config.start_from` into the network; return their checksum and settings, for JSON.

    The network must be built alike, by the same rules. If the number of classes differs, the last layer keeps its new weights.
    """
    source = config.start_from or ""
    file = weights_file(source)
    tensors, about = _load_weights(file)
    trained = config_from_dict(about["config"], str(file))
    check_named_by_file(trained.rules, str(file))
    record = {"weights": checksum(tensors), "config": trained.without_folders()}
    if config.equivariant and config.rules == "frames" and not trained.equivariant:
        tensors = {f"model.{name}": tensor for name, tensor in tensors.items()}  # the ordinary network, now in frames
    before, now = len(about["classes"]), len(classes)
    if before != now:
        for name, own in model_tensors(network).items():
            if name in tensors and tensors[name].shape == (before, *own.shape[1:]) and own.shape[:1] == (now,):
                tensors[name] = own
    try:
        if config.equivariant and trained.equivariant:  # rules change the meaning of weights, not their shapes
            wanted, found = (f"{some.rules} with {_constants(some)}" for some in (config, trained))
            if wanted != found:
                raise InputError(f"{source} was trained by other rules: {found}, not {wanted}")
        load_model_tensors(network, tensors, source)
    except InputError as error:
        raise InputError(f"{error}. Build it as that one was: {_build(trained)}") from error
    return record


def _constants(config: TrainConfig) -> dict[str, Any]:
    """All constants of a run's rules, including defaults."""
    rules = get_rules(config.rules).with_options(**config.rule_options)
    return {name: rules.option(name) for name in sorted(rules.option_names() - {"fused"})}


def _build(config: TrainConfig) -> str:
    """The options of `reqnn train` that determine the shapes of the weights."""
    kind = " --equivariant" * config.equivariant
    rules = f" --rules {config.rules} --rule-options '{json.dumps(config.rule_options)}'" * config.equivariant
    return f"--model {config.model}{kind}{rules} --options '{json.dumps(config.options)}'"
