"""Plots of an evaluation: the confusion matrix, and the accuracy against the rotation angle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reqnn.extras import need
from reqnn.train.evaluation import Evaluation

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
    axis.set_xlabel("answer")
    axis.set_ylabel("class")
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
        is_revised = name in revised
        style = "-" if is_revised else "--"
        axis.plot(angles, [100 * v for v in values], style, marker="o", color=next(colours[is_revised]), label=name)
    axis.axhline(100 * chance, color="#999999", linewidth=1, linestyle=":", label="chance")
    axis.set_xlabel("angle of rotation, degrees, about a random axis")
    axis.set_ylabel("accuracy, %")
    axis.set_ylim(0, 100)
    if len(angles) <= 13:
        axis.set_xticks(angles)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    return path
