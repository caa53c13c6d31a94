"""Table 5 of the paper: ModelNet40 learned without rotations, tested without and with; ours beside the others'."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.table import Cell, Table
from experiments.paper.budgets import Budget, get_budget, reductions
from experiments.paper.experiments import NETWORKS, Experiment
from experiments.paper.printed import TABLE4_CORRECTED, TABLE5
from experiments.paper.results import fullest_budget, read_result
from experiments.paper.table4 import MISSING, command_for, longer_runs

COLUMNS = ["method", "NR/NR, %", "NR/AR, %", "paper, NR/NR", "paper, NR/AR"]
DATA = "modelnet40"


def table5(out: str | Path = "results", budget: str | Budget | None = None) -> Table:
    """NR/NR and NR/AR of our networks, from the results of Table 4, and what the paper prints for all methods."""
    chosen = fullest_budget(out) if budget is None else get_budget(budget) if isinstance(budget, str) else budget
    rows, records, missing = [], [], []
    ours = [Experiment(DATA, network, training) for training in ("original", "reqnn") for network in NETWORKS]
    for one in ours:
        name = f"REQNN of {NETWORKS[one.network]}" if one.training == "reqnn" else NETWORKS[one.network]
        result = read_result(out, one, chosen)
        if result is None:
            missing.append(one)
            measured = [MISSING, MISSING]
        else:
            measured = [f"{100 * result[which]:.2f}" for which in ("upright", "rotated")]
        printed = TABLE5.get(name, ("", ""))
        rows.append([Cell(text) for text in (f"{name} (ours)", *measured, *printed)])
        records.append(
            {
                "method": name,
                "cell": one.key,
                "upright": result and result["upright"],
                "rotated": result and result["rotated"],
                "printed": [float(value) for value in printed if value],
            }
        )
    compared = {str(record["method"]) for record in records}
    for name, printed in TABLE5.items():
        if name not in compared:
            rows.append([Cell(text) for text in (name, "", "", *printed)])
            records.append({"method": name, "printed": [float(value) for value in printed]})
    return Table(
        "table5",
        f"Table 5: ModelNet40, learned without rotations (budget {chosen.name})",
        COLUMNS,
        rows,
        records,
        {"budget": chosen.name},
        [
            *reductions(chosen, ours),
            "NR/NR: learned and tested without rotations; NR/AR: tested under arbitrary rotations, each shape "
            f"{chosen.copies} times. Paper: Table 5 of the ECCV 2020 paper, whose PointNet++ and DGCNN are those of their own "
            "authors, slightly different from those of Table 4 and from ours (its footnote 3).",
            f"Its authors corrected the REQNN of DGCNN to {TABLE4_CORRECTED[DATA]['dgcnn']['reqnn']} after publication.",
            *longer_runs(out, chosen, DATA),
            *([f"{MISSING} not measured yet: `{command_for(missing, chosen, str(out))}`"] if missing else []),
        ],
    )
