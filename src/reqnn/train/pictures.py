"""Evaluations as plots and tables: the confusion matrix, accuracy against the rotation angle, tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from reqnn.extras import need
from reqnn.train.evaluation import Evaluation
from reqnn.train.reconstruction import Comparison
from reqnn.train.segmentation import SegmentationEvaluation

ORIGINALS = ("#b8860b", "#c44e52", "#8c564b", "#e08214")
REVISED = ("#1f5fa8", "#2a9d8f", "#5b4fa2", "#4c9fd6")


def draw_confusion(evaluation: Evaluation, title: str, path: Path) -> Path:
    """The confusion matrix, normalised per true class."""
    names = list(evaluation.per_class)
    size = max(4.5, 0.24 * len(names) + 2)
    figure = need("matplotlib.figure").Figure(figsize=(size, size), layout="constrained")
    axis = figure.subplots()
    shares = [[value / max(1, sum(row)) for value in row] for row in evaluation.confusion]
    picture = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    font = 8 if len(names) > 15 else 10
    axis.set_xticks(range(len(names)), names, rotation=90, fontsize=font)
    axis.set_yticks(range(len(names)), names, fontsize=font)
    axis.set(xlabel="answer", ylabel="class")
    if len(names) <= 15:
        for i, row in enumerate(shares):
            for j, value in enumerate(row):
                if value >= 0.005:
                    colour = "white" if value > 0.6 else "black"
                    axis.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(picture, ax=axis, shrink=0.6, label="share of the class")
    axis.set_title(f"{title}, {evaluation.protocol}: {100 * evaluation.accuracy:.1f} % right", fontsize=11)
    figure.savefig(path, dpi=120)
    return path


def draw_angles(
    angles: Sequence[float], curves: dict[str, list[float]], revised: Sequence[str], chance: float, path: Path
) -> Path:
    """Accuracy against the rotation angle, one line per network; REQNNs in blue tones."""
    figure = need("matplotlib.figure").Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    colours = {True: iter(REVISED * len(curves)), False: iter(ORIGINALS * len(curves))}
    for name, values in curves.items():
        style, colour = "-" if name in revised else "--", next(colours[name in revised])
        axis.plot(angles, [100 * v for v in values], style, marker="o", color=colour, label=name)
    axis.axhline(100 * chance, color="#999999", linewidth=1, linestyle=":", label="chance")
    axis.set(xlabel="angle of rotation, degrees, about a random axis", ylabel="accuracy, %", ylim=(0, 100))
    if len(angles) <= 13:
        axis.set_xticks(angles)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    return path


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


def by_class(found: dict[str, list[Any]], what: str = "accuracy") -> Table:
    """The accuracy, or another share, per class, one column per network and protocol."""
    columns = [(name, result) for name, results in found.items() for result in results]
    table = Table("class", *(f"{name}, {result.protocol}" for name, result in columns), title=f"{what} by class, %")
    for label in columns[0][1].per_class:
        values = [result.per_class.get(label) for _, result in columns]
        table.add_row(label, *("–" if value is None else f"{100 * value:.1f}" for value in values))
    return table


def segmentation(found: dict[str, list[SegmentationEvaluation]]) -> Table:
    """One row per network and protocol: mean IoU, and whether the answers of points change with the rotation."""
    table = Table(
        "network", "rotations", "shapes", "instance mIoU", "class mIoU", "points right", "answer changes", "logit change"
    )
    for name, results in found.items():
        for result in results:
            once = result.copies == 1
            table.add_row(
                name,
                result.protocol if once else f"{result.protocol} × {result.copies}",
                str(result.shapes),
                *(f"{100 * value:.2f} %" for value in (result.instance_miou, result.class_miou, result.accuracy)),
                "" if once else f"{100 * result.inconsistent:.3f} % of points",
                "" if once else f"{result.logit_change:.2g}",
            )
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
