"""Measured cells of Table 4 on disk: one JSON file and one log each, never mixed with those of other settings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from reqnn.errors import InputError
from reqnn.paper.budgets import BUDGETS, Budget, config_of, differing
from reqnn.paper.experiments import Experiment, experiments
from reqnn.train.checkpoint import write_json
from reqnn.train.config import TrainConfig, config_from_dict

SEED = 0
"""Of the rotations of the test set."""


def result_path(out: str | Path, experiment: Experiment, budget: Budget) -> Path:
    """Where a cell's result is."""
    return Path(out) / "table4" / budget.name / f"{experiment.stem}.json"


def read_result(out: str | Path, experiment: Experiment, budget: Budget) -> dict[str, Any] | None:
    """The result of a cell, None where there is none; `InputError` where it was measured with other settings."""
    path = result_path(out, experiment, budget)
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        before, test = config_from_dict(result["config"], str(path)), result["test"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no result that can be read ({error}); delete it to measure the cell again") from error
    changed = differing(before, config_of(experiment, budget))
    if test["copies"] != budget.copies:
        changed["copies"] = test["copies"], budget.copies
    if test["limit"] != budget.test_shapes:
        changed["test_shapes"] = test["limit"], budget.test_shapes
    if changed:
        what = ", ".join(f"{name} {one!r}, now {two!r}" for name, (one, two) in changed.items())
        raise InputError(
            f"{path} was measured with other settings than budget {budget.name} has now: {what}. Set the budget back "
            "(reqnn/paper/budgets.py), or move this file away, and its run, to measure the cell anew"
        )
    return result


def check_run(folder: Path, config: TrainConfig) -> None:
    """Raise `InputError` where a folder holds a run with other settings: it can neither go on nor be taken for this one."""
    from reqnn.train.config import load_config

    if not (folder / "config.json").exists():
        return
    changed = differing(load_config(folder / "config.json"), config)
    if changed:
        what = ", ".join(f"{name} {one!r}, now {two!r}" for name, (one, two) in changed.items())
        raise InputError(f"{folder} holds a run with other settings: {what}. Move it away, or name another folder with --runs")


def write_result(out: str | Path, experiment: Experiment, budget: Budget, result: dict[str, Any], log: Path) -> Path:
    """Write a cell's result, after its log: a result that is there is complete."""
    path = result_path(out, experiment, budget)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():
            shutil.copyfile(log, path.with_suffix(".csv"))
        write_json(path, result)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); the run is kept, run the command again") from error
    return path


def fullest_budget(out: str | Path) -> Budget:
    """The budget with the most results, the larger one among equals; `reduced` where none has any."""
    counts = {budget.name: sum(result_path(out, one, budget).exists() for one in experiments()) for budget in BUDGETS.values()}
    best = max(reversed(BUDGETS), key=lambda name: counts[name])
    return BUDGETS[best if counts[best] else "reduced"]


def results_of_larger_budgets(out: str | Path, shown: Budget) -> list[tuple[Budget, Experiment, dict[str, Any]]]:
    """Cells measured at larger budgets than the one that is shown, smallest budget first."""
    larger = list(BUDGETS.values())
    larger = larger[larger.index(shown) + 1 :] if shown in larger else []
    found = ((budget, one, read_result(out, one, budget)) for budget in larger for one in experiments())
    return [(budget, one, result) for budget, one, result in found if result is not None]
