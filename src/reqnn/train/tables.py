"""Evaluations as tables for the terminal."""

from __future__ import annotations

from rich.table import Table

from reqnn.train.evaluate import Evaluation


def overall(found: dict[str, list[Evaluation]]) -> Table:
    """One row for each network and protocol: accuracy, and whether answers change with the rotation."""
    table = Table("network", "rotations", "shapes", "accuracy", "class mean", "answer changes", "largest logit change")
    for name, results in found.items():
        for result in results:
            once = result.copies == 1
            table.add_row(
                name,
                result.protocol if once else f"{result.protocol} × {result.copies}",
                str(result.shapes),
                f"{100 * result.accuracy:.2f} %",
                f"{100 * result.class_accuracy:.2f} %",
                "" if once else f"{100 * result.inconsistent:.2f} % of shapes",
                "" if once else f"{result.logit_change:.2g} (spread {result.logit_spread:.2g})",
            )
    return table


def by_class(found: dict[str, list[Evaluation]]) -> Table:
    """The accuracy of each class, one column for each network and protocol."""
    columns = [(name, result) for name, results in found.items() for result in results]
    table = Table("class", *(f"{name}, {result.protocol}" for name, result in columns), title="accuracy by class, %")
    for label in columns[0][1].per_class:
        values = [result.per_class.get(label) for _, result in columns]
        table.add_row(label, *("–" if value is None else f"{100 * value:.1f}" for value in values))
    return table
