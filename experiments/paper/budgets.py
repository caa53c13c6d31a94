"""Training budgets of Table 4, from a smoke test to the paper's settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from experiments.harness.trial import Trial, differing
from experiments.paper.experiments import TRAINING_SETTINGS, Experiment
from reqnn.errors import InputError
from reqnn.train.config import TrainConfig
from reqnn.train.presets import preset

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Settings of all cells of Table 4; the default is the preset `paper`.

    `cells` override `networks`, which override `settings`; `options` and `rule_options` are merged key by key. The table's
    caption lists settings that differ between the trainings of a row.

    Attributes:
        name: the folder of its results.
        summary: a description.
        settings: fields of `TrainConfig` for all cells.
        networks: network → further fields.
        cells: prefix of a cell's key (`modelnet40`, `modelnet40/dgcnn`, `modelnet40/dgcnn/reqnn`) → further fields.
        copies: rotations per test shape.
        test_shapes: number of test shapes, a fixed choice; None for all of them.
        test_options: network → its arguments in the test that differ from training.
        after: the budget whose trained networks this one starts from.
    """

    name: str
    summary: str
    settings: Settings = field(default_factory=dict)
    networks: Mapping[str, Settings] = field(default_factory=dict)
    cells: Mapping[str, Settings] = field(default_factory=dict)
    copies: int = 10
    test_shapes: int | None = None
    test_options: Mapping[str, Settings] = field(default_factory=dict)
    after: Budget | None = None


_SMALL = {
    "optimizer": "adamw",
    "schedule": "onecycle",
    "lr": 3e-3,
    "min_lr": 0.0,
    "weight_decay": 0.01,
    "clip": 5.0,
    "scale": 0.2,
    "jitter": 0.01,
    "recalibrate": 8,
    "smoothing": 0.0,
    "rule_options": {"c": 0.1},
    "options": {"width": 0.25, "dropout": 0.0},
}
"""Settings for small networks and few epochs (docs/experiments.md); the same for original and REQNN."""

_128_POINTS: dict[str, Settings] = {
    "dgcnn": {"options": {"k": 10}},
    "pointnet2": {"options": {"npoint": [64, 16], "radius": [0.4, 0.8], "nsample": [16, 16]}},
    "pointconv": {"options": {"npoint": [64, 16], "nsample": [16, 16], "bandwidth": [0.2, 0.4, 0.8]}},
}
"""Groupings for an eighth of the points: fewer centres, wider balls."""

_FEWER_CENTRES: dict[str, Settings] = {
    "dgcnn": {"options": {"sample": 256, "k": 16}},
    "pointnet2": {"options": {"npoint": [128, 32], "radius": [0.3, 0.6], "nsample": [16, 16]}},
    "pointconv": {"options": {"npoint": [128, 32], "nsample": [16, 16], "bandwidth": [0.15, 0.3, 0.6]}},
}
"""A quarter of the centres, chosen by the networks themselves from all points, each the farthest from those before."""

FULL = Budget(name="full", summary="the paper's settings: 1024 points, 400 epochs; for GPUs")

LONG = Budget(
    name="long",
    summary="all shapes, a quarter of the centres and of the width, 40 epochs: about two hours a cell on one core",
    settings={**_SMALL, "points": 1024, "epochs": 40},
    networks=_FEWER_CENTRES,
)

LONGER = Budget(
    name="longer",
    summary="the networks of the budget long, trained two hours more on clouds with points left out",
    settings={**LONG.settings, "epochs": 44, "schedule": "cosine", "lr": 2e-3, "warmup": 1.0, "point_dropout": 0.25, "seed": 1},
    networks=LONG.networks,
    after=LONG,
)

LONGEST = Budget(
    name="longest",
    summary="the networks of the budget longer, trained two hours more likewise; DGCNN tested by votes",
    settings={**LONGER.settings, "epochs": 32, "seed": 2},
    networks=LONG.networks,
    test_options={"dgcnn": {"votes": 5}},
    after=LONGER,
)

WIDE = Budget(
    name="wide",
    summary="all shapes, a quarter of the centres, up to half the width, Muon: one to two hours a cell on one core",
    settings={
        **_SMALL,
        "points": 1024,
        "optimizer": "muon",
        "lr": 0.01,
        "ema": 0.999,
        "stretch": 0.1,
        "point_dropout": 0.25,
    },
    networks={
        "dgcnn": {"options": {**_FEWER_CENTRES["dgcnn"]["options"], "width": 0.5}},
        "pointnet2": {
            "options": {"width": 0.5, "sample": 256, "npoint": [128, 32], "radius": [0.5, 1.0], "nsample": [32, 32]},
        },
        "pointconv": {"options": {**_FEWER_CENTRES["pointconv"]["options"], "sample": 256}},
    },
    cells={
        "modelnet40/dgcnn": {"epochs": 48},
        "modelnet40/pointconv": {"epochs": 24},
        "modelnet40/pointnet2": {"epochs": 16, "rule_options": {"c": 1.0}},  # docs/experiments.md
        "3d-mnist": {"epochs": 30},
        "3d-mnist/pointnet2": {"rule_options": {"c": 1.0}},
    },
    test_options={"pointnet2": {"votes": 5}, "pointconv": {"votes": 5}},
)

WIDER = Budget(
    name="wider",
    summary="the networks of the budget wide, trained an hour more with stronger augmentation, dropout and label smoothing",
    settings={
        **WIDE.settings,
        "epochs": 24,
        "schedule": "cosine",
        "lr": 0.005,
        "warmup": 1.0,
        "stretch": 0.25,
        "point_dropout": 0.4,
        "smoothing": 0.1,
        "options": {"dropout": 0.2},
        "seed": 1,
    },
    networks=WIDE.networks,
    test_options={"dgcnn": {"votes": 5}},
    after=WIDE,
)

REDUCED = Budget(
    name="reduced",
    summary="all training and test shapes, 128 points, a quarter of the width, few epochs: under two hours on one core in all",
    settings={**_SMALL, "points": 128, "sampled_from": 1024},
    networks=_128_POINTS,
    cells={
        "modelnet40/dgcnn": {"epochs": 6},  # about a minute an epoch on one core
        "modelnet40/pointnet2": {"epochs": 15},
        "modelnet40/pointconv": {"epochs": 6},
        "3d-mnist/dgcnn": {"epochs": 10},  # half as many shapes
        "3d-mnist/pointnet2": {"epochs": 20},
        "3d-mnist/pointconv": {"epochs": 10},
    },
)

QUICK = Budget(
    name="quick",
    summary="a smoke test in minutes: 1,024 training shapes, 200 test shapes, 128 points, an eighth of the width, 2 epochs",
    settings={**_SMALL, "points": 128, "epochs": 2, "limit": 1024, "options": {"width": 0.125, "dropout": 0.0}},
    networks={
        "dgcnn": {"options": {"k": 8}},
        "pointnet2": {"options": {"npoint": [64, 16], "radius": [0.4, 0.8], "nsample": [8, 8]}},
        "pointconv": {"options": {"npoint": [64, 16], "nsample": [8, 8]}},
    },
    test_shapes=200,
)

BUDGETS: dict[str, Budget] = {budget.name: budget for budget in (QUICK, REDUCED, LONG, LONGER, LONGEST, WIDE, WIDER, FULL)}
"""From the smallest to the largest."""


def get_budget(name: str) -> Budget:
    """A budget by its name."""
    if name not in BUDGETS:
        raise InputError(f"no budget is named {name!r}; there are {', '.join(BUDGETS)}")
    return BUDGETS[name]


def config_of(experiment: Experiment, budget: Budget, out: str | None = None) -> TrainConfig:
    """The settings of a cell within a budget; its run is written to `out`."""
    layers = [budget.settings, budget.networks.get(experiment.network, {})]
    parts = experiment.key.split("/")
    layers += [budget.cells.get("/".join(parts[:depth]), {}) for depth in (1, 2, 3)]
    values: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            joined = name in ("options", "rule_options")
            values[name] = {**values.get(name, {}), **value} if joined else value
    values |= TRAINING_SETTINGS[experiment.training]
    return preset("paper", experiment.network, **values, data=experiment.data, out=out)


def trial_of(experiment: Experiment, budget: Budget) -> Trial:
    """A cell within a budget, as what is to be trained and tested."""
    return Trial(
        experiment.key,
        experiment.title,
        f"table4/{budget.name}",
        config_of(experiment, budget),
        experiment.command(budget.name, "results"),
        budget.copies,
        budget.test_shapes,
        budget.test_options.get(experiment.network, {}),
        None if budget.after is None else trial_of(experiment, budget.after),
    )


def reductions(budget: Budget, chosen: list[Experiment], but_for: Collection[str] = ()) -> list[str]:
    """What a budget changes against the paper's settings, settings `but_for` left out: sentences for a caption."""
    changes = {one: _changes(one, budget, but_for) for one in chosen}
    common = [text for text in changes[chosen[0]] if all(text in texts for texts in changes.values())]
    groups: dict[str, list[str]] = {}
    for one, texts in changes.items():
        own = ", ".join(text for text in texts if text not in common)
        groups.setdefault(own, []).append(one.key)
    said = [f"all: {', '.join(common)}"] if common else []
    said += [f"{', '.join(_families(keys))}: {text}" for text, keys in groups.items() if text]
    notes = [f"Budget {budget.name}: {budget.summary}."]
    if said:
        notes.append(f"Changed against the paper's settings, those in brackets: {'; '.join(said)}.")
    if budget.after is not None:
        notes.append(f"Each network begins with the weights that it has at the end of the budget {budget.after.name}.")
    if budget.test_shapes is not None:
        notes.append(f"Tested on {budget.test_shapes} test shapes only.")
    return notes


def _changes(one: Experiment, budget: Budget, but_for: Collection[str]) -> list[str]:
    from reqnn.models.registry import model_entry

    published = {name: parameter.default for name, parameter in signature(model_entry(one.network).build).parameters.items()}
    changed = differing(trial_of(one, budget).tested, trial_of(one, FULL).tested)
    return [
        f"{name} {_shown(now)} ({_shown(published.get(name) if before is None else before)})"
        for name, (now, before) in changed.items()
        if name not in but_for
    ]


def _families(keys: list[str]) -> list[str]:
    """Keys with the training left out where all three of a row are there."""
    rows: dict[str, list[str]] = {}
    for key in keys:
        rows.setdefault(key.rpartition("/")[0], []).append(key)
    return [name for row, members in rows.items() for name in ([row] if len(members) == len(TRAINING_SETTINGS) else members)]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return "/".join(map(_shown, value)) if isinstance(value, (list, tuple)) else str(value)
