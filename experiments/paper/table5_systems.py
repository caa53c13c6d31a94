"""The systems of Table 5, ordinary networks and REQNNs on ModelNet40: what is trained, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.harness.trial import Trial
from experiments.paper import budgets
from experiments.paper.budgets import Budget, Settings
from experiments.paper.experiments import NETWORKS, TRAININGS, Experiment, matches
from reqnn.errors import InputError
from reqnn.models.registry import model_entry
from reqnn.train.presets import CONSTANTS

DATA = "modelnet40"


@dataclass(frozen=True)
class System:
    """A row of Table 5: its name there, the network, and its training: original, reqnn (by `paper`) or reqnn-full."""

    name: str
    network: str
    training: str = "original"

    @property
    def key(self) -> str:
        """modelnet40/rscnn/reqnn: what `--only` takes."""
        return f"{DATA}/{self.network}/{self.training}"

    @property
    def of_table4(self) -> bool:
        """Whether Table 4 has it, too: it is trained once, for both."""
        return self.network in NETWORKS and self.training in TRAININGS

    def command(self, budget: str, out: str = "results") -> str:
        """The command that measures this row."""
        return f"python -m experiments paper table5 --budget {budget} --only {self.key} --out {out}"


COMPARED = {
    "PointNet": "pointnet",
    "PointNet++": "pointnet2",
    "Point2Sequence": "point2sequence",
    "KD-Network": "kd_network",
    "RS-CNN": "rscnn",
    "DGCNN": "dgcnn",
    "PointConv": "pointconv",
    "PRIN": "prin",
    "QE-Capsule network": "qe_capsule",
}
"""Name in the paper → network, in its order; PointConv is in its Table 4 only."""

REVISED = ("DGCNN", "PointNet++", "PointConv", "RS-CNN", "Point2Sequence", "KD-Network")
BY_FULL = ("DGCNN", "RS-CNN")

SYSTEMS = [System(name, network) for name, network in COMPARED.items()]
SYSTEMS += [System(f"REQNN of {name}", COMPARED[name], "reqnn") for name in REVISED]
SYSTEMS += [System(f"REQNN of {name}, rules full", COMPARED[name], "reqnn-full") for name in BY_FULL]

_QUICK: dict[str, Settings] = {
    "point2sequence": {"options": {"npoint": 16, "nsample": [4, 8, 12, 16]}},
    "kd_network": {"options": {"depth": 5}},
    "rscnn": {"options": {"npoint": [24, 8], "radius": [0.5, 1.0], "nsample": [8, 8]}},
    "prin": {"options": {"bandwidth": 4, "shells": 8}},
    "qe_capsule": {"options": {"npoint": 16, "neighbours": 16, "sharpness": 100.0}},
}
_ALL_POINTS = {"points": 1024, "sampled_from": 0}
"""PRIN and QE-Capsule choose cells and patches from all points themselves: fewer points would save no time."""

_REDUCED: dict[str, Settings] = {
    "pointnet": {"epochs": 20},
    "point2sequence": {"epochs": 15, "options": {"npoint": 32, "nsample": [8, 16, 24, 32]}},
    "kd_network": {"epochs": 20, "options": {"depth": 7, "width": 1.0}},
    "rscnn": {"epochs": 15, "options": {"npoint": [64, 16], "radius": [0.4, 0.8], "nsample": [16, 16]}},
    "prin": {"epochs": 10, **_ALL_POINTS, "options": {"bandwidth": 8, "shells": 16, "width": 0.5}},
    "qe_capsule": {"epochs": 8, **_ALL_POINTS, "options": {"npoint": 64, "sharpness": 100.0}},
}
_LONG: dict[str, Settings] = {
    "point2sequence": {"options": {"npoint": 96, "nsample": [8, 16, 32, 64]}},
    "kd_network": {"options": {"width": 1.0}},
    "rscnn": {"options": {"npoint": [128, 32], "radius": [0.3, 0.6], "nsample": [24, 24]}},
    "prin": {"options": {"bandwidth": 8, "shells": 32, "width": 1.0}},
    "qe_capsule": {"options": {"npoint": 64, "sharpness": 100.0}},
}
SETTINGS: Mapping[str, Mapping[str, Settings]] = {"quick": _QUICK, "reduced": _REDUCED} | dict.fromkeys(
    ("long", "longer", "longest"), _LONG
)
"""Budget → network → settings of the networks that Table 4 does not have."""


def trial_of(system: System, budget: Budget) -> Trial:
    """A row within a budget, as what is to be trained and tested; that of Table 4 if it is there."""
    experiment = Experiment(DATA, system.network, system.training if system.training in TRAININGS else "reqnn")
    if system.of_table4:
        return budgets.trial_of(experiment, budget)
    own = SETTINGS.get(budget.name, {})
    config = budgets.config_of(experiment, replace(budget, networks={**budget.networks, **own}))
    known = model_entry(system.network).options
    changes: dict[str, Any] = {"options": {name: value for name, value in config.options.items() if name in known}}
    if system.training == "reqnn-full":
        changes |= {"rules": "full", "rule_options": dict(CONSTANTS["full"])}
    return Trial(
        system.key,
        f"{system.name} on ModelNet40",
        f"table5/{budget.name}",
        replace(config, **changes),
        system.command(budget.name),
        budget.copies,
        budget.test_shapes,
        after=None if budget.after is None else trial_of(system, budget.after),
    )


def select(patterns: Sequence[str]) -> list[System]:
    """The rows that match the patterns, in their order; all without patterns."""
    chosen: list[System] = []
    for pattern in patterns or ("*",):
        found = [one for one in SYSTEMS if matches(one.key, pattern)]
        if not found:
            raise InputError(
                f"--only {pattern} names no row of Table 5; they are {', '.join(one.key for one in SYSTEMS)}; "
                "the end may be left out, and * stands for any part"
            )
        chosen += [one for one in found if one not in chosen]
    return chosen
