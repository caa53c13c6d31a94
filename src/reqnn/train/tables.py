"""Evaluations as tables for the terminal."""

from __future__ import annotations

from rich.table import Table

from reqnn.train.comparison import Comparison
from reqnn.train.evaluation import Evaluation


def overall(found: dict[str, list[Evaluation]]) -> Table:
    """One row per network and protocol: accuracy, and whether answers change with the rotation."""
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
    """The accuracy per class, one column per network and protocol."""
    columns = [(name, result) for name, results in found.items() for result in results]
    table = Table("class", *(f"{name}, {result.protocol}" for name, result in columns), title="accuracy by class, %")
    for label in columns[0][1].per_class:
        values = [result.per_class.get(label) for _, result in columns]
        table.add_row(label, *("–" if value is None else f"{100 * value:.1f}" for value in values))
    return table


def reconstruction(found: list[Comparison]) -> Table:
    """One row per network and protocol: reconstruction error and equivariance error."""
    table = Table("network", "parameters", "rotations", "shapes", "Chamfer", "EMD", "largest Chamfer change", "f(Rx) − R f(x)")
    for comparison in found:
        for result in comparison.results:
            once = result.copies == 1
            table.add_row(
                comparison.name,
                f"{comparison.parameters:,}",
                result.protocol if once else f"{result.protocol} × {result.copies}",
                str(result.shapes),
                f"{result.chamfer:.5f}",
                "" if result.emd is None else f"{result.emd:.4f} ({result.emd_shapes})",
                f"{result.chamfer_change:.1g}",
                f"at most {result.deviation:.1g}, mean {result.mean_deviation:.1g}",
            )
    return table
