"""Table 5 of the paper: ModelNet40 learned without rotations, tested without and with; all systems measured by one protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from experiments.harness.results import read_result, result_path
from experiments.harness.table import Cell, Table
from experiments.harness.trial import Trial
from experiments.paper.budgets import BUDGETS, Budget, get_budget
from experiments.paper.printed import TABLE4_CORRECTED, TABLE5
from experiments.paper.results import fullest_budget
from experiments.paper.table4 import MISSING, longer_runs
from experiments.paper.table5_systems import DATA, SYSTEMS, System, trial_of

COLUMNS = [
    *("method", "NR/NR, %", "NR/AR, %", "paper, NR/NR", "paper, NR/AR", "same answer in all, %"),
    *("parameters", "ms per cloud", "points", "epochs"),
]
BATCH, REPEATS = 32, 3


def table5(out: str | Path = "results", budget: str | Budget | None = None) -> Table:
    """NR/NR and NR/AR of all systems beside what the paper prints, with their parameters and times."""
    chosen = fullest_budget(out) if budget is None else get_budget(budget) if isinstance(budget, str) else budget
    rows, records, missing = [], [], []
    for system in SYSTEMS:
        trial = trial_of(system, chosen)
        result = read_result(out, trial)
        if result is None:
            missing.append(system)
        accuracies = {name: None if result is None else result[name] for name in ("upright", "rotated", "consistency")}
        printed = TABLE5.get(system.name, ("", ""))
        parameters, seconds = size_and_time(trial)
        measured = [MISSING if value is None else f"{100 * value:.2f}" for value in accuracies.values()]
        texts = [system.name, *measured[:2], *printed, measured[2], f"{parameters:,}", f"{1000 * seconds:.2f}"]
        rows.append([Cell(text) for text in (*texts, str(trial.config.points), str(trial.config.epochs))])
        records.append(
            {
                "method": system.name,
                "cell": system.key,
                **accuracies,
                "printed": [float(value) for value in printed if value],
                "parameters": parameters,
                "seconds_per_cloud": seconds,
                "training_seconds": None if result is None else result["seconds"],
                "command": system.command(chosen.name, str(out)),
                "config": trial.config.without_folders(),
            }
        )
    title = f"Table 5: ModelNet40, learned without rotations (budget {chosen.name})"
    notes = _notes(out, chosen, missing)
    return Table("table5", title, COLUMNS, rows, records, {"budget": chosen.name}, notes)


def size_and_time(trial: Trial) -> tuple[int, float]:
    """Parameters of a trial's network, and the time per cloud on one thread, in eval mode, of a batch of 32 (CPU time)."""
    from reqnn.revision.report import count_parameters
    from reqnn.rules import get_rules
    from reqnn.zoo import create_model

    config = trial.tested
    rules = get_rules(config.rules).with_options(**config.rule_options) if config.equivariant else "paper"
    net = create_model(config.model, config.equivariant, rules=rules, **config.options).eval()
    points = torch.randn(BATCH, config.points, 3, generator=torch.Generator().manual_seed(0))
    points = points / points.norm(dim=2).amax(1)[:, None, None]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            net(points)
            start = time.process_time()
            for _ in range(REPEATS):
                net(points)
            return count_parameters(net), (time.process_time() - start) / (REPEATS * BATCH)
    finally:
        torch.set_num_threads(threads)


def _notes(out: str | Path, budget: Budget, missing: list[System]) -> list[str]:
    trials = [trial_of(system, budget) for system in SYSTEMS]
    shared = trials[0].config
    sizes = {trial.config.model: trial.config.options for trial in trials}
    notes = [
        "NR/NR: learned and tested without rotations; NR/AR: tested under arbitrary rotations, each shape "
        f"{budget.copies} times. Paper: Table 5 of the ECCV 2020 paper; others' figures are most likely copied from the PRIN "
        "paper. Its PointNet++ and DGCNN differ slightly from those of its Table 4 and from ours (its footnote 3).",
        f"One protocol for all: {shared.optimizer}, {shared.schedule}, learning rate {shared.lr}, batch {shared.batch}, "
        "cross-entropy, all training shapes; weights selected on a tenth of them, split off by object. QE-Capsule's own loss "
        "is the spread loss; KD-Network is tested with one tree, not 16.",
        f"Sizes: {'; '.join(f'{name}: {_shown(options)}' for name, options in sizes.items())}.",
        "Time: eval mode, batch of 32, one thread, CPU time.",
        f"Its authors corrected the REQNN of DGCNN to {TABLE4_CORRECTED[DATA]['dgcnn']['reqnn']} after publication.",
        *longer_runs(out, budget, DATA),
        *_longer_rows(out, budget),
    ]
    if missing:
        only = "" if len(missing) == len(SYSTEMS) else f" --only {' '.join(system.key for system in missing)}"
        command = f"python -m experiments paper table5 --budget {budget.name} --out {out}{only}"
        notes.append(f"{MISSING} not measured yet ({len(missing)} of {len(SYSTEMS)}): `{command}`")
    return notes


def _longer_rows(out: str | Path, shown: Budget) -> list[str]:
    """Results at larger budgets of the systems that Table 4 does not have."""
    names, notes = list(BUDGETS), []
    for name in names[names.index(shown.name) + 1 :] if shown.name in names else []:
        for system in SYSTEMS:
            trial = trial_of(system, BUDGETS[name])
            if not system.of_table4 and result_path(out, trial).exists() and (result := read_result(out, trial)) is not None:
                hours = (result["seconds"] or 0) / 3600
                notes.append(
                    f"Longer: {trial.title}, budget {name} ({result['epochs']} epochs, {hours:.1f} hours): "
                    f"{100 * result['upright']:.2f} upright, {100 * result['rotated']:.2f} rotated; `{trial.command}`."
                )
    return notes


def _shown(options: Mapping[str, Any]) -> str:
    flat = {name: "/".join(map(str, value)) if isinstance(value, (list, tuple)) else value for name, value in options.items()}
    return ", ".join(f"{name} {value}" for name, value in flat.items())
