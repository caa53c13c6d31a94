"""The weights that a training begins with: those of another run, or of a network that ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from reqnn.errors import InputError
from reqnn.train.config import TrainConfig
from reqnn.train.run import weights_file
from reqnn.train.weights import load_model_tensors, load_tensors, model_tensors


def start_from(network: nn.Module, config: TrainConfig, classes: tuple[str, ...]) -> None:
    """Copy the trained weights that the settings name into their network: of `reqnn.list_weights()`, a run's folder, a file.

    The network has to be of the same build, by the same rules. Where the weights tell other classes apart, and another number
    of them, the layer that does so keeps its fresh weights.
    """
    from reqnn.pretrained.loading import WEIGHTS, list_weights

    source = config.start_from or ""
    file = WEIGHTS / f"{source}.safetensors" if source in list_weights() else weights_file(Path(source).expanduser())
    tensors, about = load_tensors(file)
    if "classes" not in about:
        raise InputError(f"{file} is a checkpoint to go on from; begin with the weights beside it: {file.parent}")
    before, now = len(about["classes"]), len(classes)
    if before != now:
        for name, own in model_tensors(network).items():
            if name in tensors and tensors[name].shape == (before, *own.shape[1:]) and own.shape[:1] == (now,):
                tensors[name] = own
    try:
        _check_rules(config, about["config"], source)
        load_model_tensors(network, tensors, source)
    except InputError as error:
        raise InputError(f"{error}. Build it as that one was: {_build(about['config'])}") from error


def _check_rules(config: TrainConfig, before: dict[str, Any], source: str) -> None:
    """Rules and their constants change no shape of a weight, but what the weights do."""
    if not (config.equivariant and before["equivariant"]):
        return
    now, then = ((some["rules"], _constants(some["rule_options"])) for some in (config.to_dict(), before))
    if now != then:
        raise InputError(f"{source} was trained by other rules: {then[0]} with {then[1]}, not {now[0]} with {now[1]}")


def _constants(rule_options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rule_options.items() if name != "fused"}


def _build(config: dict[str, Any]) -> str:
    """The options of `reqnn train` that the shapes of weights follow from."""
    kind = " --equivariant" * config["equivariant"]
    rules = f" --rules {config['rules']} --rule-options '{json.dumps(config['rule_options'])}'" * config["equivariant"]
    return f"--model {config['model']}{kind}{rules} --options '{json.dumps(config['options'])}'"
