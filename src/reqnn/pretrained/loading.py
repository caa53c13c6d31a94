"""`load`: a trained network by its name, or from a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reqnn.errors import InputError, did_you_mean
from reqnn.train import shipped
from reqnn.train.run import Run, load_run
from reqnn.train.shipped import list_weights
from reqnn.train.weights import count_parameters


def load(name_or_path: str | Path) -> Any:
    """A trained network in eval mode: one of `list_weights()`, or a run's folder or weights file.

    Its `classes` are the class names, output i being the logit of classes[i]; its `card` is a dict that says what it was
    trained on and with (`points`: how many points a cloud should have), and for weights that ship what it reaches.
    """
    name = str(name_or_path)
    path = shipped.WEIGHTS / f"{name}.safetensors" if name in list_weights() else Path(name_or_path).expanduser()
    if not path.exists():
        raise InputError(_unknown(name))
    run = load_run(path)
    network: Any = run.model
    if getattr(run.config, "task", "classification") != "classification":
        raise InputError(f"{name} is a network for {run.config.task}; it has no classes: reqnn.train.load_run loads it")
    network.classes, network.card = run.classes, read_card(path) or facts(run)
    return network


def read_card(path: Path) -> dict[str, Any] | None:
    """The model card beside a weights file; None where there is none, as for a run."""
    card = path.with_suffix(".json")
    if not path.is_file() or not card.exists():
        return None
    try:
        return dict(json.loads(card.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{card} cannot be read as a model card ({error}); take it away, or export the weights again"
        ) from error


def facts(run: Run) -> dict[str, Any]:
    """What is known of any run: the beginning of a model card."""
    config = run.config
    return {
        "network": config.model,
        "equivariant": config.equivariant,
        "data": Path(config.data).name,
        "points": config.points,
        "classes": list(run.classes),
        "parameters": count_parameters(run.model),
    }


def _unknown(name: str) -> str:
    names = list_weights()
    there = f"there are {', '.join(names)}" if names else "this version has none"
    where = f"no weights are named {name!r}, and no run or weights file is at that path; of those that ship {there}"
    return where + did_you_mean(name, names)
