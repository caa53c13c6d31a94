"""Table 4 of the paper: accuracy on rotated shapes of original networks and REQNNs, from the available results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.harness.table import Cell, Table
from experiments.harness.trial import differing
from experiments.paper.budgets import Budget, config_of, get_budget, reductions
from experiments.paper.experiments import DATA, NETWORKS, TRAINING_SETTINGS, TRAININGS, Experiment, experiments
from experiments.paper.printed import TABLE4, TABLE4_CORRECTED
from experiments.paper.results import cells_of_larger_budgets, fullest_budget, read_result
from reqnn.errors import InputError

MISSING = "–"
ORDER = ("original", "vertical", "reqnn")
COLUMNS = [
    "network",
    "data",
    "training",
    "upright, %",
    "rotated, %",
    "longest run, rotated, %",
    "paper, rotated",
    "corrected by its authors",
    "same answer in all, %",
    "largest logit change",
    "parameters",
    "epochs",
    "training, hours",
]


def table4(out: str | Path = "results", budget: str | Budget | None = None) -> Table:
    """The results of a budget, by default the one with the most, beside the paper's figures and their correction."""
    chosen = fullest_budget(out) if budget is None else get_budget(budget) if isinstance(budget, str) else budget
    cells = [Experiment(data, network, training) for data in DATA for network in _networks() for training in ORDER]
    results = {one: read_result(out, one, chosen) for one in cells}
    longest = {one: larger for larger, one in cells_of_larger_budgets(out, chosen)}  # the last, largest one stays
    return Table(
        "table4",
        f"Table 4: accuracy of shape classification under arbitrary rotation (budget {chosen.name})",
        COLUMNS,
        [_row(one, results[one], _longest(out, one, longest.get(one))) for one in cells],
        [_record(one, results[one], chosen, str(out)) for one in cells],
        {"budget": chosen.name},
        _notes(results, chosen, str(out)),
    )


def command_for(missing: Sequence[Experiment], budget: Budget, out: str) -> str:
    """The command that measures these cells."""
    only = "" if len(missing) == len(experiments()) else f" --only {' '.join(one.key for one in missing)}"
    return f"python -m experiments paper table4 --budget {budget.name} --out {out}{only}"


def _networks() -> list[str]:
    """In the order of the paper."""
    return [network for network in TABLE4["modelnet40"] if network in NETWORKS]


def _longest(out: str | Path, one: Experiment, budget: Budget | None) -> str:
    """The rotated accuracy at the largest budget with a result, if it is larger than that of the table."""
    try:
        result = None if budget is None else read_result(out, one, budget)
    except InputError:  # measured with other settings: a note says so
        return ""
    return "" if budget is None or result is None else f"{100 * result['rotated']:.2f} ({budget.name})"


def _row(one: Experiment, result: dict[str, Any] | None, longest: str) -> list[Cell]:
    printed, corrected = (table[one.data][one.network][one.training] for table in (TABLE4, TABLE4_CORRECTED))
    names = [NETWORKS[one.network], DATA[one.data], TRAININGS[one.training]]
    if result is None:
        measured = [MISSING] * 7
    else:
        seconds = result["seconds"]
        measured = [
            f"{100 * result['upright']:.2f}",
            f"{100 * result['rotated']:.2f}",
            f"{100 * result['consistency']:.2f}",
            f"{result['logit_change']:.1e} (spread {result['logit_spread']:.1f})",
            f"{result['parameters']:,}",
            str(result["epochs"]),
            MISSING if seconds is None else f"{seconds / 3600:.2f}",
        ]
    return [Cell(text) for text in (*names, *measured[:2], longest, printed, corrected, *measured[2:])]


def _record(one: Experiment, result: dict[str, Any] | None, budget: Budget, out: str) -> dict[str, Any]:
    kept = ("upright", "rotated", "consistency", "logit_change", "logit_spread", "parameters", "epochs", "seconds", "ambiguity")
    return {
        "cell": one.key,
        "printed": float(TABLE4[one.data][one.network][one.training]),
        "corrected": float(TABLE4_CORRECTED[one.data][one.network][one.training]),
        "command": one.command(budget.name, out),
        "file": f"table4/{budget.name}/{one.stem}.json",
        "measured": None if result is None else {name: result[name] for name in kept if name in result},
    }


def _notes(results: dict[Experiment, dict[str, Any] | None], budget: Budget, out: str) -> list[str]:
    missing = [one for one in experiments() if results[one] is None]
    notes = reductions(budget, list(results))
    notes += _unequal(budget)
    notes += [
        f"Accuracy on the test shapes upright, and with each rotated arbitrarily {budget.copies} times; weights selected "
        "on a tenth of the training set, split off by object. Same answer: shapes that keep theirs in all rotations.",
        "Trained without rotations, or with vertical ones: about the y axis of ModelNet40 (the authors' correction of what the "
        "paper calls z-axis rotations), about the z axis of 3D MNIST.",
        "Longest run: at the largest budget with a result, in brackets; details below.",
        "Paper: Table 4 of the ECCV 2020 paper. Corrected: the figures its authors gave after publication.",
        f"Each row by itself: `python -m experiments paper table4 --budget {budget.name} --out {out} --only CELL`, its cell "
        "being DATA/NETWORK/TRAINING as in the name of its file: modelnet40/pointnet2/original for the first.",
    ]
    notes += _verdict(results)
    notes += [line for one, result in results.items() if result is not None for line in _explanation(one, result)]
    notes += [
        f"{one.title}: {_size(result['config'])}{_as_trained(result)}."
        for one, result in results.items()
        if result is not None and "upright_as_trained" in result
    ]
    notes += longer_runs(out, budget)
    if missing:
        notes.append(f"{MISSING} not measured yet ({len(missing)} of {len(results)}): `{command_for(missing, budget, out)}`")
    return notes


def longer_runs(out: str | Path, shown: Budget, data: str | None = None) -> list[str]:
    """The results at larger budgets than the one of the table (on one data set)."""
    notes = []
    for budget, one in cells_of_larger_budgets(out, shown):
        if data in (None, one.data):
            try:
                result = read_result(out, one, budget)
            except InputError as error:  # of another budget: show the table anyway
                notes.append(f"Not shown: {error}")
                continue
            assert result is not None
            notes.append(
                f"Longer: {one.title}, budget {budget.name} ({_size(result['config'])}, {result['epochs']} epochs, "
                f"{(result['seconds'] or 0) / 3600:.1f} hours{_after(budget)}): "
                f"{100 * result['upright']:.2f} upright{_as_trained(result)}, {100 * result['rotated']:.2f} rotated, "
                f"{100 * result['consistency']:.2f} % keep their answer in all; `{one.command(budget.name, str(out))}`."
            )
            notes += _explanation(one, result)
    return notes


def _size(config: Mapping[str, Any]) -> str:
    """1024 points, or 256 of 1024 points if the network samples them."""
    sample, votes = config["options"].get("sample"), config["options"].get("votes", 1)
    one = f"{sample} of {config['points']} points" if sample else f"{config['points']} points"
    one = f"{one}, {config['options'].get('width', 1)} of the width"
    return one if votes == 1 else f"{one}, the mean over {votes} such samples"


def _after(budget: Budget) -> str:
    return "" if budget.after is None else f" more than at the budget {budget.after.name}"


def _as_trained(result: Mapping[str, Any]) -> str:
    """The upright accuracy of the network as built in training, if it is tested with other options."""
    return f" ({100 * result['upright_as_trained']:.2f} by one sample)" if "upright_as_trained" in result else ""


def _unequal(budget: Budget) -> list[str]:
    """Settings in which the trainings of one row differ unintentionally."""
    found = []
    for data in DATA:
        for network in _networks():
            configs = {training: config_of(Experiment(data, network, training), budget) for training in ORDER}
            for training in ORDER[1:]:
                other = differing(configs["original"], configs[training])
                names = sorted(set(other) - set(TRAINING_SETTINGS[training]))
                if names:
                    found.append(f"{DATA[data]}, {NETWORKS[network]}: {', '.join(names)} of {training}")
    return [f"Not the same for all trainings of a row: {'; '.join(found)}."] if found else []


def _verdict(results: dict[Experiment, dict[str, Any] | None]) -> list[str]:
    rows, above, gap = 0, 0, dict.fromkeys(DATA, 0.0)
    for data in DATA:
        for network in _networks():
            row = {training: results[Experiment(data, network, training)] for training in ORDER}
            reqnn, others = row["reqnn"], (row["original"], row["vertical"])
            if reqnn is not None:
                gap[data] = max(gap[data], 100 * abs(reqnn["upright"] - reqnn["rotated"]))
                if None not in others:
                    rows += 1
                    above += all(reqnn["rotated"] > other["rotated"] for other in others if other is not None)
    if not rows:
        return []
    gaps = ", ".join(f"{gap[data]:.2f} on {DATA[data]}" for data in DATA)
    return [
        f"REQNN's rotated accuracy is above both originals' in {above} of the {rows} rows that are complete; its upright and "
        f"rotated accuracies differ by at most (points): {gaps}."
    ]


def _explanation(one: Experiment, result: dict[str, Any]) -> list[str]:
    """A REQNN's ambiguous neighbourhoods and changed answers, in words."""
    if "changed" not in result:
        return []
    name = f"REQNN of {NETWORKS[one.network]} on {DATA[one.data]}"
    ties, changed, shapes = result["ambiguity"], result["changed"], result["test"]["shapes"]
    frames = f", {ties['ambiguous_frames']:,} PCA frames are" if "ambiguous_frames" in ties else ""
    lines = [
        f"{name}: of {ties['neighbourhoods']:,} neighbourhoods of {ties['neighbours']} points in {ties['shapes']:,} test "
        f"shapes {ties['tied']:,} end in a tie and {ties['ambiguous']:,} stay ambiguous{frames}; {len(changed)} of {shapes:,} "
        f"shapes change their answer{_causes(changed)}."
    ]
    for record in changed[:5]:
        answers = ", ".join(f"{name} {count}×" for name, count in record["answers"].items())
        lines.append(
            f"{name}, test shape {record['shape']} ({record['class']}): {answers}; margin {record['margin']:.1e}, largest "
            f"logit change {record['logit_change']:.1e}, in float64 {record['logit_change_float64']:.1e}; {record['cause']}."
        )
    if len(changed) > 5:
        lines.append(f"{name}: the other {len(changed) - 5} are listed in its result file.")
    return lines


def _causes(changed: list[dict[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for record in changed:
        counts[record["cause"]] = counts.get(record["cause"], 0) + 1
    return f" ({', '.join(f'{cause}: {count}' for cause, count in counts.items())})" if counts else ""
