"""The comparison as a table and a picture, from the available results."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.compare.contest import Contest, command, pace_key
from experiments.compare.pace import Pace
from experiments.harness.results import read_result, result_path
from experiments.harness.table import Cell, Table
from experiments.harness.trial import Trial
from experiments.paper.budgets import reductions
from experiments.paper.experiments import DATA, NETWORKS, Experiment

MISSING = "–"
COLUMNS = [
    "data",
    "network",
    "rules",
    "trained for",
    "upright, %",
    "rotated, %",
    "same answer in all, %",
    "epochs",
    "minutes",
    "step, ms",
    "× original",
    "parameters",
    "seeds",
]
COLOURS = {"paper": "#9aa3af", "vector-neurons": "#dd8452", "full": "#2a6fb0"}


@dataclass(frozen=True)
class Row:
    """The results of one rule set on one network and data set, at equal epochs or time; one per seed."""

    data: str
    model: str
    rules: str
    way: str
    results: list[dict[str, Any]]
    logs: list[Path]


def rows_of(contest: Contest, wanted: Sequence[Trial], out: str | Path) -> list[Row]:
    """The results of a contest, seeds side by side."""
    rows = []
    for data, model, rules in contest.cells:
        for way in contest.ways:
            group = f"compare/{contest.budget.name}-{way}"
            same = [one for one in wanted if one.group == group and one.key.startswith(f"{data}/{model}/{rules}/")]
            found = [(one, read_result(out, one)) for one in same]
            results = [result for _, result in found if result is not None]
            logs = [result_path(out, one).with_suffix(".csv") for one, result in found if result is not None]
            rows.append(Row(data, model, rules, way, results, logs))
    return rows


def comparison(contest: Contest, rows: Sequence[Row], paces: Mapping[str, Pace], out: str | Path = "results") -> Table:
    """The table of a contest."""
    missing = sum(not row.results for row in rows)
    chosen = [Experiment(data, model, "reqnn") for data in contest.data for model in contest.models]
    notes = [
        *reductions(contest.budget, chosen, but_for=contest.budget.settings.get("rule_options", {})),
        "The same settings for all rule sets but for their constants; epochs are those of the table, not of the budget; "
        "no rotations in training; weights selected on a tenth of the training set. Rotated: every test shape rotated "
        f"{contest.budget.copies} times. Means over seeds, ± half of the range.",
        *_constants(contest),
        "Step: the median time of a training step, all rule sets and the original interleaved on the same clouds "
        f"({', '.join(sorted({f'{pace.threads} thread(s)' for pace in paces.values()}))}); minutes: the time of the training.",
        f"`{command(contest, str(out))}`",
    ]
    if missing:
        notes.append(f"{MISSING} not measured yet: the command above continues.")
    return Table(
        "compare",
        "Rule sets compared",
        COLUMNS,
        [_cells(row, paces) for row in rows],
        [_record(row, paces) for row in rows],
        {"budget": contest.budget.name, "seeds": contest.seeds, "epochs": contest.epochs, "minutes": contest.minutes},
        notes,
    )


def _constants(contest: Contest) -> list[str]:
    """The constants of rule sets that are not their defaults."""
    configs = {rules: contest.config(contest.data[0], contest.models[0], rules) for rules in contest.rules}
    said = [f"{name} {value} ({rules})" for rules, config in configs.items() for name, value in config.rule_options.items()]
    return [f"Constants that are not the defaults of a rule set: {', '.join(said)}."] if said else []


def _cells(row: Row, paces: Mapping[str, Pace]) -> list[Cell]:
    pace, original = paces.get(pace_key(row.model, row.rules)), paces.get(f"{row.model}/original")
    step = (
        [MISSING] * 2
        if pace is None or original is None
        else [f"{1e3 * pace.seconds:.0f}", f"{pace.seconds / original.seconds:.2f}"]
    )
    names = [DATA[row.data], NETWORKS.get(row.model, row.model), row.rules, row.way.replace("-", " ")]
    if not row.results:
        return [Cell(text) for text in (*names, *[MISSING] * 5, *step, MISSING, "0")]
    measured = [_spread([100 * result[what] for result in row.results]) for what in ("upright", "rotated", "consistency")]
    measured += [f"{mean(result['epochs'] for result in row.results):g}"]
    measured += [f"{mean((result['seconds'] or 0) / 60 for result in row.results):.1f}", *step]
    return [Cell(text) for text in (*names, *measured, f"{row.results[0]['parameters']:,}", str(len(row.results)))]


def _spread(values: Sequence[float]) -> str:
    half = (max(values) - min(values)) / 2
    return f"{mean(values):.2f}" + (f" ± {half:.2f}" if len(values) > 1 else "")


def _record(row: Row, paces: Mapping[str, Pace]) -> dict[str, Any]:
    kept = (
        "upright",
        "rotated",
        "consistency",
        "logit_change",
        "parameters",
        "epochs",
        "seconds",
        "validation_accuracy",
        "seed",
    )
    pace, original = paces.get(pace_key(row.model, row.rules)), paces.get(f"{row.model}/original")
    return {
        "data": row.data,
        "model": row.model,
        "rules": row.rules,
        "way": row.way,
        "step_seconds": None if pace is None else pace.seconds,
        "original_step_seconds": None if original is None else original.seconds,
        "runs": [{name: result[name] for name in kept if name in result} for result in row.results],
    }


def draw(rows: Sequence[Row], path: Path) -> Path | None:
    """Validation accuracy against minutes of training, with the rotated test accuracy at its end; None without results."""
    import matplotlib

    matplotlib.use("Agg")  # files only: no window, no display
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys((row.data, row.model) for row in rows if row.results))
    if not panels:
        return None
    figure, axes = plt.subplots(1, len(panels), figsize=(5.6 * len(panels), 4.2), squeeze=False, layout="constrained")
    for axis, (data, model) in zip(axes[0], panels, strict=True):
        for row in rows:
            if (row.data, row.model) == (data, model):
                _draw_row(axis, row)
        axis.set_title(f"{NETWORKS.get(model, model)} on {DATA[data]}", loc="left", fontsize=11)
        axis.set_xlabel("minutes of training")
        axis.set_ylabel("accuracy, %")
        axis.spines[["top", "right"]].set_visible(False)
        handles = {handle.get_label(): handle for handle in axis.get_lines() if not str(handle.get_label()).startswith("_")}
        axis.legend(handles.values(), handles.keys(), frameon=False, loc="lower right")
    figure.suptitle(
        "Lines: validation, dashed at equal time; dots: test in any orientation", x=0.01, ha="left", fontsize=9, color="#6b7280"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return path


def _draw_row(axis: Any, row: Row) -> None:
    colour = COLOURS.get(row.rules, "#55a868")
    for result, log in zip(row.results, row.logs, strict=True):
        with log.open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        minutes = [float(line["seconds"]) / 60 for line in lines]
        dashed = "--" if row.way.startswith("minutes") else "-"
        axis.plot(minutes, [100 * float(line["validation_accuracy"]) for line in lines], dashed, color=colour, lw=1.4)
        axis.plot(minutes[-1:], [100 * result["rotated"]], "o", color=colour, label=row.rules)
