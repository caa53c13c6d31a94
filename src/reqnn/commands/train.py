"""`reqnn train`: train a network or its REQNN on a data set."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command
from reqnn.errors import InputError
from reqnn.train import presets
from reqnn.train.config import TASKS, TrainConfig, load_config

OPTIONS = ("preset", "model", "task", "out", "rules", "optimizer", "points")
"""Options that other defaults depend on."""


@dataclass(kw_only=True)
class Train(Command):
    """Train a network, or its REQNN, on a data set; the run's folder holds settings, log, weights and the learning curve.

    A preset gives the defaults for each network: `reqnn train --preset paper --model pointconv --help` shows them. The best
    weights are selected on a part of the training set, never on the test set.
    Ctrl-C writes a checkpoint (exit code 130); --resume reproduces the uninterrupted run bit for bit.

    Examples:
        reqnn train --model dgcnn --equivariant --data digits --epochs 5 --out runs/digits
        reqnn train --preset paper --model pointnet2 --data modelnet40 --protocol vertical --out runs/original
        reqnn train --model dgcnn_parts --equivariant --rules full --data shapenet-part --out runs/parts
        reqnn train --task normals --equivariant --rules full --data scanned --out runs/normals
        reqnn train --task reconstruction --equivariant --data modelnet40 --out runs/clouds
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
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for option in OPTIONS:
            parser.add_argument(f"--{option}", nargs="?")
        given = {name: value for name, value in vars(parser.parse_known_args(arguments)[0]).items() if value}
        settings = Path(given.get("out", "")) / "config.json"
        if "--resume" in arguments and "out" in given and settings.is_file():
            return cls(config=_without_flags(load_config(settings), arguments))
        # Wrong values are left out here: the parser refuses them and lists the valid ones.
        chosen: Literal["quick", "paper"] = "paper" if given.get("preset") == "paper" else "quick"
        options: dict[str, Any] = {"task": given["task"]} if given.get("task") in TASKS else {}
        options |= {"rules": given["rules"]} if "rules" in given else {}
        options |= {"optimizer": "muon"} if given.get("optimizer") == "muon" else {}
        options |= {"points": int(given["points"])} if given.get("points", "").isdecimal() else {}
        return cls(preset=chosen, config=presets.preset(chosen, given.get("model"), **options))

    def run(self) -> int:
        """Train."""
        from reqnn.train import fit

        if self.config.rules != "paper" and not (self.config.equivariant or self.resume):
            raise InputError(f"--rules {self.config.rules} is for the revised network; add --equivariant, or leave it out")
        fit(self.config, resume=self.resume)
        return OK


def _without_flags(config: TrainConfig, arguments: Sequence[str]) -> TrainConfig:
    """The settings with all flags of the command line unset: the parser only knows flags that change a default."""
    flags = [item.name for item in fields(config) if isinstance(getattr(config, item.name), bool)]
    unset: dict[str, Any] = {name: True for name in flags if f"--no-{name}" in arguments}
    unset |= {name: False for name in flags if f"--{name}" in arguments}
    return replace(config, **unset)
