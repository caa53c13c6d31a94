"""Start a training from the weights of another run, or from pretrained ones."""

from __future__ import annotations

import json
from typing import Any

from torch import nn

from reqnn.errors import InputError
from reqnn.rules import get_rules
from reqnn.train.config import TrainConfig, config_from_dict
from reqnn.train.run import weights_file
from reqnn.train.weights import checksum, load_model_tensors, load_tensors, model_tensors

START = "start.json"
"""The file in a run's folder about the weights it started from."""


def start_from(network: nn.Module, config: TrainConfig, classes: tuple[str, ...]) -> dict[str, Any]:
    """Load the weights of `config.start_from` into the network; return their checksum and settings, for JSON.

    The network must be built alike, by the same rules. If the number of classes differs, the last layer keeps its new weights.
    """
    source = config.start_from or ""
    file = weights_file(source)
    tensors, about = load_tensors(file)
    if "classes" not in about:
        raise InputError(f"{file} is a checkpoint for --resume; start from the weights beside it: {file.parent}")
    trained = config_from_dict(about["config"], str(file))
    record = {"weights": checksum(tensors), "config": trained.without_folders()}
    if config.equivariant and config.rules == "frames" and not trained.equivariant:
        tensors = {f"model.{name}": tensor for name, tensor in tensors.items()}  # the ordinary network, now in frames
    before, now = len(about["classes"]), len(classes)
    if before != now:
        for name, own in model_tensors(network).items():
            if name in tensors and tensors[name].shape == (before, *own.shape[1:]) and own.shape[:1] == (now,):
                tensors[name] = own
    try:
        _check_rules(config, trained, source)
        load_model_tensors(network, tensors, source)
    except InputError as error:
        raise InputError(f"{error}. Build it as that one was: {_build(trained)}") from error
    return record


def _check_rules(config: TrainConfig, before: TrainConfig, source: str) -> None:
    """Rules and their constants do not change the shapes of weights, but their meaning."""
    if not (config.equivariant and before.equivariant):
        return
    now, then = ((some.rules, _constants(some)) for some in (config, before))
    if now != then:
        raise InputError(f"{source} was trained by other rules: {then[0]} with {then[1]}, not {now[0]} with {now[1]}")


def _constants(config: TrainConfig) -> dict[str, Any]:
    """All constants of a run's rules, including defaults."""
    rules = get_rules(config.rules).with_options(**config.rule_options)
    return {name: rules.option(name) for name in sorted(rules.option_names() - {"fused"})}


def _build(config: TrainConfig) -> str:
    """The options of `reqnn train` that determine the shapes of the weights."""
    kind = " --equivariant" * config.equivariant
    rules = f" --rules {config.rules} --rule-options '{json.dumps(config.rule_options)}'" * config.equivariant
    return f"--model {config.model}{kind}{rules} --options '{json.dumps(config.options)}'"
