"""`reqnn train`: train a network or its REQNN on a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command
from reqnn.train import presets
from reqnn.train.config import TASKS, TrainConfig, load_config


@dataclass(kw_only=True)
class Train(Command):
    """Train a network, or its REQNN, on a data set; the run's folder holds settings, log, weights and the learning curve.

    A preset gives the defaults for each network: `reqnn train --preset paper --model pointconv --help` shows them. The best
    weights are selected on a part of the training set, never on the test set.
    Ctrl-C writes a checkpoint (exit code 130); --resume reproduces the uninterrupted run bit for bit.

    Examples:
        reqnn train --model dgcnn --equivariant --data digits --epochs 5 --out runs/digits
        reqnn train --preset paper --model pointnet2 --data modelnet40 --protocol vertical --out runs/original
        reqnn train --task reconstruction --equivariant --data modelnet40 --out runs/autoencoder
        reqnn train --resume --out runs/digits
        torchrun --nproc-per-node 4 -m reqnn.cli train --preset paper --model dgcnn --equivariant --data modelnet40
    """

    preset: Literal["quick", "paper"] = "quick"
    """quick: for two cores, minutes on small data sets, an hour or two on ModelNet40; paper: as published, for GPUs."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=lambda: presets.preset("quick"))
    """Settings."""

    resume: bool = False
    """Resume the run in --out with its own settings; start it if there is none."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Train:
        """The settings of the preset and the network, or those of the run to resume."""
        name, model, task, out = (_value(arguments, option) for option in ("--preset", "--model", "--task", "--out"))
        settings = Path(out or "") / "config.json"
        if "--resume" in arguments and out and settings.is_file():
            return cls(config=_without_flags(load_config(settings), arguments))
        # The parser refuses a wrong name and lists the valid ones.
        chosen: Literal["quick", "paper"] = "paper" if name == "paper" else "quick"
        given: dict[str, Any] = {"task": task} if task in TASKS else {}
        if (rules := _value(arguments, "--rules")) is not None:
            given["rules"] = rules
        if _value(arguments, "--optimizer") == "muon":
            given["optimizer"] = "muon"
        if (points := _value(arguments, "--points") or "").isdecimal():
            given["points"] = int(points)
        return cls(preset=chosen, config=presets.preset(chosen, model, **given))

    def run(self) -> int:
        """Train."""
        from reqnn.train import fit

        fit(self.config, resume=self.resume)
        return OK


def _without_flags(config: TrainConfig, arguments: Sequence[str]) -> TrainConfig:
    """The settings with all flags of the command line unset: the parser only knows flags that change a default."""
    unset: dict[str, Any] = {}
    for item in fields(config):
        if isinstance(getattr(config, item.name), bool):
            if f"--{item.name}" in arguments:
                unset[item.name] = False
            elif f"--no-{item.name}" in arguments:
                unset[item.name] = True
    return replace(config, **unset)


def _value(arguments: Sequence[str], option: str) -> str | None:
    """The value of an option on the command line, before it is parsed."""
    found = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == option:
            found = following
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found
