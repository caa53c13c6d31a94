"""Pictures of clouds, seen from above at an angle; near points are dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reqnn.extras import need

GREY, BLUE, RED, GREEN = "#4b5563", "#1f5fa8", "#c44e52", "#2a9d8f"
FRAME = 0.9  # half the width of a picture; few objects fill the unit sphere, and points beyond it are not clipped


def camera(up: str = "y", aside: float = 35.0, above: float = 22.0) -> Tensor:
    """(3, 3) whose rows are right, up and towards the viewer, for objects whose vertical axis is `up`; angles in degrees."""
    a, b = math.radians(aside), math.radians(above)
    right = [math.cos(a), 0.0, -math.sin(a)]
    top = [-math.sin(a) * math.sin(b), math.cos(b), -math.cos(a) * math.sin(b)]
    near = [math.sin(a) * math.cos(b), math.sin(b), math.cos(a) * math.cos(b)]
    order = {"x": [1, 2, 0], "y": [0, 1, 2], "z": [2, 0, 1]}
    return torch.tensor([right, top, near], dtype=torch.float64)[:, order[up]]


def draw_cloud(panel: Any, xyz: Tensor, colour: str = BLUE, view: Tensor | None = None, size: float = 5.0) -> None:
    """Points (N, 3) on matplotlib axes; far points are pale."""
    seen = xyz.detach().double().cpu() @ (camera() if view is None else view).T
    x, y, depth = seen[seen[:, 2].argsort()].T.numpy()
    shades = need("matplotlib.colors").LinearSegmentedColormap.from_list("", ["#e3e7ec", colour])
    panel.scatter(x, y, c=depth, cmap=shades, vmin=-1.1, vmax=0.7, s=size, linewidths=0, clip_on=False)
    panel.set(xlim=(-FRAME, FRAME), ylim=(-FRAME, FRAME), aspect="equal")
    panel.set_axis_off()


def draw_grid(
    rows: Sequence[Sequence[Tensor]],
    path: Path,
    *,
    titles: Sequence[str] = (),
    names: Sequence[str] = (),
    captions: Sequence[Sequence[str]] = (),
    colours: Sequence[str] = (),
    view: Tensor | None = None,
    title: str = "",
    size: float = 5.0,
) -> Path:
    """Clouds (N, 3) in rows and columns: titles above the columns, names beside the rows, captions below single clouds."""
    columns = max(len(row) for row in rows)
    figure = need("matplotlib.figure").Figure(
        figsize=(0.8 + 1.8 * columns, 0.4 + 1.75 * len(rows) + 0.25 * bool(title)), layout="constrained"
    )
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.01, h_pad=0.02, wspace=0, hspace=0)
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for i, row in enumerate(rows):
        for j, panel in enumerate(panels[i]):
            panel.set_axis_off()
            if j >= len(row):
                continue
            draw_cloud(panel, row[j], colours[i] if colours else BLUE, view, size)
            if i == 0 and titles:
                panel.set_title(titles[j], fontsize=9)
            if captions and captions[i] and captions[i][j]:
                panel.text(0.5, 0.03, captions[i][j], transform=panel.transAxes, ha="center", va="top", fontsize=8)
        if names:
            beside = panels[i][0]
            beside.text(-0.04, 0.5, names[i], transform=beside.transAxes, rotation=90, ha="right", va="center", fontsize=9)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    return path


def draw_coloured(
    rows: Sequence[tuple[str, Tensor, Tensor]], titles: Sequence[str], path: Path, view: Tensor, colours: str, largest: float
) -> Path:
    """Clouds in rows and columns, each point coloured by its number from 0 to `largest` on a colour map of matplotlib.

    Shapes: rows of a name, points (S, N, 3) and numbers (S, N).
    """
    figure = need("matplotlib.figure").Figure(figsize=(0.8 + 1.8 * len(titles), 0.4 + 1.75 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(titles), squeeze=False)
    for i, (name, points, numbers) in enumerate(rows):
        for j, panel in enumerate(panels[i]):
            seen = points[j].double() @ view.T
            order = seen[:, 2].argsort()
            x, y = seen[order, :2].T.numpy()
            about = {"c": numbers[j][order].numpy(), "cmap": colours, "vmin": 0, "vmax": largest}
            panel.scatter(x, y, s=5, linewidths=0, clip_on=False, **about)
            panel.set(xlim=(-FRAME, FRAME), ylim=(-FRAME, FRAME), aspect="equal")
            panel.set_axis_off()
            if i == 0:
                panel.set_title(titles[j], fontsize=9)
        beside = panels[i][0]
        beside.text(-0.04, 0.5, name, transform=beside.transAxes, rotation=90, ha="right", va="center", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    return path


def draw_arrows(
    panel: Any, xyz: Tensor, vectors: Tensor, colour: str, view: Tensor | None = None, length: float = 0.28, clip: bool = False
) -> None:
    """Vectors (N, 3) at points (N, 3), at most `length` long; `clip` cuts them off at the panel."""
    look = (camera() if view is None else view)[:2]
    arrows = length * vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1)
    heads = {"width": 0.008, "headwidth": 3.6, "headlength": 4, "headaxislength": 3.6}
    where = {"angles": "xy", "scale_units": "xy", "scale": 1, "clip_on": clip}
    panel.quiver(*(xyz @ look.T).T.numpy(), *(arrows @ look.T).T.numpy(), color=colour, **heads, **where)
