"""What `reqnn eval` draws in a clone: confusion, accuracy against the angle, parts, errors of normals, reconstructions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from experiments.pictures.clouds import BLUE, GREY, RED, camera, draw_coloured, draw_grid
from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import random_rotations, rotate_by
from reqnn.errors import InputError
from reqnn.extras import need
from reqnn.train.batches import normals_of
from reqnn.train.evaluation import Evaluation, neighbours, pca_normals, rotated_copies, segment, task_of
from reqnn.train.prediction import predict
from reqnn.train.run import Run
from reqnn.train.task import line_angles

Loaded = dict[str, tuple[Run, PointClouds]]
"""Name of a run in tables → the run, and its test clouds."""

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


def draw(task: str, loaded: Loaded, found: dict[str, list[Any]], report: dict[str, Any], folder: Path, seed: int) -> list[Path]:
    """The pictures of an evaluation: results by run, and the report that evaluation.json holds."""
    models, clouds = {name: run.model for name, (run, _) in loaded.items()}, next(iter(loaded.values()))[1]
    if task == "segmentation":
        return [draw_parts(models, clouds, folder / "parts.png", seed)]
    if task == "normals":
        return [draw_normals(models, clouds, folder / "normals.png", seed)]
    if task == "reconstruction":
        return [draw_reconstructions(loaded, folder / "reconstructions.png", seed)]
    paths = []
    for number, (name, results) in enumerate(found.items(), start=1):
        which = f"-{number}" if len(found) > 1 else ""
        paths += [draw_confusion(result, name, folder / f"confusion{which}-{result.protocol}.png") for result in results]
    if report["angles"]:
        revised = [name for name, (run, _) in loaded.items() if run.config.equivariant]
        curves, chance = report["accuracy_by_angle"], 1 / len(clouds.classes)
        paths.append(draw_angles(report["angles"], curves, revised, chance, folder / "accuracy_by_angle.png"))
    return paths


def draw_parts(models: dict[str, nn.Module], clouds: PointClouds, path: Path, seed: int = 0, shapes: int = 6) -> Path:
    """Objects of several categories, their points coloured by part: the truth, then each network, upright and rotated."""
    if clouds.parts is None:
        raise InputError(f"{clouds.name} has no parts to draw")
    labels = clouds.labels.tolist()
    chosen = [labels.index(label) for label in sorted(set(labels))][:shapes]
    some = clouds.subset(chosen)
    task, upright = task_of(some), some.points
    rotated = rotate_by(upright, rotated_copies(some, "AR", 1, seed).matrices[:, 0])
    rows = [("truth", upright, clouds.parts[chosen])]
    for name, model in models.items():
        for state, points in (("", upright), (", rotated", rotated)):
            answers = task.answers(segment(model, points, some.labels, task), some.labels)
            rows.append((name.replace(" of ", " of\n") + state, points, answers))
    first = torch.tensor([task.part_classes.index(int(label)) for label in some.labels])[:, None]
    coloured = [(name, points, parts - first) for name, points, parts in rows]
    return draw_coloured(coloured, [some.classes[label] for label in some.labels.tolist()], path, camera(some.up), "Set1", 8)


def draw_normals(models: dict[str, nn.Module], clouds: PointClouds, path: Path, seed: int = 0, shapes: int = 6) -> Path:
    """Objects coloured by the angle to the true normal, 0 (blue) to 60 degrees (yellow): PCA, each network, also rotated."""
    some = clouds.subset(range(min(shapes, len(clouds))))
    wanted, matrices = normals_of(some), rotated_copies(some, "AR", 1, seed).matrices[:, 0]
    k = neighbours(next(iter(models.values())))
    rows = [(f"PCA, k = {k}", some.points, line_angles(pca_normals(some.points.double(), k), wanted))]
    for name, model in models.items():
        for state, points, normals in (
            ("", some.points, wanted),
            (", rotated", rotate_by(some.points, matrices), rotate_by(wanted, matrices)),
        ):
            rows.append((name.replace(" of ", " of\n") + state, points, line_angles(predict(model, points), normals)))
    titles = [some.classes[label] for label in some.labels.tolist()]
    return draw_coloured(rows, titles, path, camera(some.up), "viridis", 60)


def draw_reconstructions(loaded: Loaded, path: Path, seed: int = 0) -> Path:
    """Draw the first test objects of six classes, upright and rotated, and their reconstructions."""
    clouds = next(iter(loaded.values()))[1]
    labels = clouds.labels.tolist()
    chosen = [labels.index(label) for label in sorted(set(labels))][:6]
    points = clouds.points[chosen].double()
    rotated = rotate_by(points, random_rotations(len(points), "AR", torch.Generator().manual_seed(seed)))
    rows, names, colours = [], [], []
    for state, given in (("", points), (", rotated", rotated)):
        rows.append(list(given))
        names.append(f"input{state}")
        colours.append(GREY)
        for name, (run, _) in loaded.items():
            rows.append(list(predict(run.model, given)))
            names.append(name.replace(" of ", " of\n"))
            colours.append(BLUE if run.config.equivariant else RED)
    titles = [clouds.classes[labels[index]] for index in chosen]
    return draw_grid(rows, path, titles=titles, names=names, colours=colours, view=camera(clouds.up))
