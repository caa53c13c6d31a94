"""`load`: a trained network by name, or from a run."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.files import read_bytes, read_json
from reqnn.errors import InputError, did_you_mean
from reqnn.revision.report import count_parameters
from reqnn.train.run import FORMER_NAMES, Run, list_weights, load_run, weights_file


def load(name_or_path: str | Path) -> Any:
    """A trained network in eval mode: one of `list_weights()`, or a run's folder or weights file.

    Output i is the logit of `network.classes[i]`. `network.card` is a dict with the data and settings of the training
    (`points`: points per cloud) and, for pretrained weights, the test results.
    """
    name, known = str(name_or_path), list_weights()
    if name not in (*known, *FORMER_NAMES) and not Path(name).expanduser().exists():
        there = ", ".join(known) or "none in this version"
        what = f"{name!r} names no pretrained weights, run or weights file"
        raise InputError(f"{what}; pretrained weights: {there}{did_you_mean(name, known)}")
    path = weights_file(name)
    card = read_card(path)
    run = load_run(path)
    network: Any = run.model
    if getattr(run.config, "task", "classification") != "classification":
        hint = "`reqnn predict --category` colours parts with it, " * (run.config.task == "segmentation")
        raise InputError(f"{name} is a network for {run.config.task}; it has no classes: {hint}reqnn.train.load_run loads it")
    network.classes, network.card = run.classes, {**(card or {}), **facts(run)}
    network.register_forward_pre_hook(Unnormalised())
    return network


class Unnormalised:
    """A forward pre-hook that warns, once, of a cloud (B, N, 3) far from those of the training: centred, in the unit sphere."""

    def __init__(self) -> None:
        self.warned = False

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Look at the size and the centre."""
        points = args[0] if args else None
        if self.warned or torch.compiler.is_compiling() or not isinstance(points, Tensor) or points.dim() != 3:
            return
        largest, centre = float(points.detach().abs().amax()), float(points.detach().mean(1).abs().amax())
        if 0.4 <= largest <= 1.5 and centre <= 0.3 * largest:
            return
        self.warned = True
        warnings.warn(
            f"a cloud with coordinates up to {largest:.3g} and its centre up to {centre:.3g} from 0: this network was trained "
            "on clouds centred on their mean and scaled to the unit sphere; net.predict(points) normalises",
            stacklevel=4,
        )


def read_card(path: Path) -> dict[str, Any] | None:
    """The model card beside a weights file, or None."""
    card = path.with_suffix(".json")
    if not path.is_file() or not card.exists():
        return None
    found = read_json(card, "a model card")
    # the checksum inside earlier weights does not cover their class names and settings
    if "sha256" in found and found["sha256"] != hashlib.sha256(read_bytes(path)).hexdigest():
        raise InputError(f"{path} is not the file of its model card {card.name} (SHA-256): it is damaged, or was exchanged")
    return found


def facts(run: Run) -> dict[str, Any]:
    """The part of a model card that any run has."""
    config = run.config
    return {
        "network": config.model,
        "equivariant": config.equivariant,
        "data": Path(config.data).name,
        "points": config.points,
        "classes": list(run.classes),
        "parameters": count_parameters(run.model),
    }
