"""Measured cells of Table 4 on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.harness import results
from experiments.paper.budgets import BUDGETS, Budget, trial_of
from experiments.paper.experiments import Experiment, experiments


def read_result(out: str | Path, experiment: Experiment, budget: Budget) -> dict[str, Any] | None:
    """The result of a cell or None; `InputError` if it was measured with other settings."""
    return results.read_result(out, trial_of(experiment, budget))


def fullest_budget(out: str | Path) -> Budget:
    """The budget with the most results, the larger one if tied; `reduced` if there are none."""
    counts = {name: sum(_measured(out, one, budget) for one in experiments()) for name, budget in BUDGETS.items()}
    best = max(reversed(BUDGETS), key=lambda name: counts[name])
    return BUDGETS[best if counts[best] else "reduced"]


def cells_of_larger_budgets(out: str | Path, shown: Budget) -> list[tuple[Budget, Experiment]]:
    """Cells with a result at larger budgets than the shown one, smallest budget first."""
    larger = list(BUDGETS.values())
    larger = larger[larger.index(shown) + 1 :] if shown in larger else []
    return [(budget, one) for budget in larger for one in experiments() if _measured(out, one, budget)]


def _measured(out: str | Path, one: Experiment, budget: Budget) -> bool:
    return results.result_path(out, trial_of(one, budget)).exists()
