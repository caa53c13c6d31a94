"""The pictures of the demo: scanned objects in several orientations, and under each what the networks call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.collections import EllipseCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor, nn

from experiments.pictures.clouds import camera
from reqnn import points, quaternion
from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import rotate_by
from reqnn.data.scanned import scanned_objects
from reqnn.train.prediction import predict

RIGHT, WRONG, TEXT, FAINT = "#1a7f37", "#c62828", "#1f2937", "#6b7280"
SHADES = LinearSegmentedColormap.from_list("", ["#1f2a38", "#56708c", "#b9c9d8", "#f7fafc"])
LIGHT = torch.nn.functional.normalize(torch.tensor([-0.45, 0.55, 0.7]), dim=0)  # from the upper left, in front
VIEWS = {"teapot": 35.0, "lion": -55.0, "coffee mug": -55.0, "hammer": -55.0}
"""Objects to show → from which side they are recognised best upright, in degrees."""

SIZE, GUTTER, LINE, HEAD = 1.55, 1.45, 0.26, 0.62  # inches: a picture, the names beside, a line of text, the title


def draw_answers(networks: Mapping[str, nn.Module], test: PointClouds, objects: Sequence[str], path: Path, title: str) -> Path:
    """A row per object: it upright and in four other orientations, and below it the answer of each network, wrong ones red.

    The pictures show all points of the scan; the networks get the first test cloud of the object, rotated in the same way.
    """
    rotations = _orientations()
    height = SIZE + LINE * (len(networks) + 0.4)
    figure = Figure(figsize=(GUTTER + SIZE * len(rotations), HEAD + height * len(objects)))
    width, whole = figure.get_size_inches()

    def write(x: float, y: float, text: str, **style: Any) -> None:
        figure.text(x / width, 1 - y / whole, text, **{"ha": "center", "va": "center", "fontsize": 11, "color": TEXT, **style})

    write(0.12, 0.2, title, ha="left", fontsize=12, fontweight="bold")
    for column in range(len(rotations)):
        write(GUTTER + SIZE * (column + 0.5), 0.52, "rotated" if column else "upright", fontsize=9, color=FAINT)
    for row, name in enumerate(objects):
        label, top = test.classes.index(name), HEAD + height * row
        draw_scan(figure, label, rotations, VIEWS.get(name, 35.0), GUTTER, top)
        clouds = test.points[test.labels == label][:1].expand(len(rotations), -1, -1)
        for line, (network, model) in enumerate(networks.items()):
            y = top + SIZE + LINE * (line + 0.4)
            write(0.12, y, network, ha="left", fontweight="bold")
            for column, answer in enumerate(predict(model, rotate_by(clouds, rotations)).argmax(-1).tolist()):
                right = answer == label
                text = f"{'✓' if right else '✗'} {test.classes[answer]}"
                write(GUTTER + SIZE * (column + 0.5), y, text, color=RIGHT if right else WRONG)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=180, facecolor="white")
    return path


def draw_scan(figure: Figure, label: int, rotations: Tensor, aside: float, left: float, top: float) -> None:
    """One object in some orientations (R, 3, 3), side by side from a place in inches, all in one scale."""
    objects, view = scanned_objects(), camera("z", aside).float()
    xyz, normals = torch.from_numpy(objects.points[label]), torch.from_numpy(objects.normals[label])
    seen = [(xyz @ rotation.T @ view.T, normals @ rotation.T @ view.T) for rotation in rotations.float()]
    frame = 1.08 * max(float((place.amax(0) - place.amin(0))[:2].max()) for place, _ in seen) / 2
    spacing = (xyz[points.knn(xyz[None], xyz[None], 9)[0]] - xyz.unsqueeze(1)).norm(dim=-1).mean(1)
    width, whole = figure.get_size_inches()
    for column, (place, normal) in enumerate(seen):
        corner = (left + SIZE * column) / width, 1 - (top + SIZE) / whole
        panel = figure.add_axes((*corner, SIZE / width, SIZE / whole))
        middle = (place.amax(0) + place.amin(0)) / 2
        _draw_discs(panel, place - middle, normal, 1.3 * spacing.clamp(max=spacing.quantile(0.9)))
        panel.set(xlim=(-frame, frame), ylim=(-frame, frame), aspect="equal")
        panel.set_axis_off()


def _draw_discs(panel: Any, xyz: Tensor, normals: Tensor, radius: Tensor) -> None:
    """Lit discs on the surface at its points (N, 3), far ones first; tilted, they are ellipses. Back sides are left out."""
    order = xyz[:, 2].argsort()
    order = order[normals[order, 2] > -0.05]
    xyz, normals, radius = xyz[order], normals[order], radius[order]
    facing = normals[:, 2].clamp(min=0)
    shade = (0.75 * (normals @ LIGHT).clamp(min=0) + 0.25 * facing) * (0.875 + 0.125 * xyz[:, 2])
    widths, heights = 2 * radius * normals[:, 2].abs().clamp(min=0.25), 2 * radius
    angles = torch.atan2(normals[:, 1], normals[:, 0]).rad2deg()
    style = {"offset_transform": panel.transData, "facecolors": SHADES(shade.numpy()), "linewidths": 0, "units": "xy"}
    panel.add_collection(EllipseCollection(widths, heights, angles.numpy(), offsets=xyz[:, :2].numpy(), **style))


def _orientations() -> Tensor:
    """No rotation and four in different directions, (5, 3, 3) float64."""
    axes = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.3], [0.0, 1.0, 0.2], [1.0, 1.0, 0.0], [-0.3, 1.0, 1.0]]
    angles = torch.tensor([0.0, 95.0, 180.0, -70.0, 140.0], dtype=torch.float64).deg2rad()
    return quaternion.to_matrix(quaternion.from_axis_angle(torch.tensor(axes, dtype=torch.float64), angles))
