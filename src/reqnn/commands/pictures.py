"""The pictures of the demo: what networks answer when an object turns, and which layers turn with it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import points, quaternion
from reqnn.auditing import AuditReport
from reqnn.data.dataset import PointClouds
from reqnn.extras import need
from reqnn.tensor import QuaternionTensor
from reqnn.train.cloud_pictures import draw_arrows
from reqnn.train.prediction import predict

need("matplotlib").use("Agg")  # files only: no window, no display
plt = need("matplotlib.pyplot")

ORIGINAL, REVISED, FAINT = "#c44e52", "#2a6fb0", "#6b7280"
FLOOR = 1e-17  # where an error of exactly 0 is drawn
LAYER = "conv5"
ARROWS, LENGTH = 56, 0.3


def draw_errors(reports: Mapping[str, Mapping[str, AuditReport]], path: Path) -> Path:
    """Rotation error of each layer, original and REQNN, on a logarithmic scale; one panel a network."""
    widths = [len(kinds["original"].rows) for kinds in reports.values()]
    figure, panels = plt.subplots(
        1, len(reports), figsize=(13, 4.8), sharey=True, squeeze=False, width_ratios=widths, layout="constrained"
    )
    for panel, (title, kinds) in zip(panels[0], reports.items(), strict=True):
        names = [row.name for row in kinds["original"].rows]
        place = {name: i for i, name in enumerate(names)}
        for kind, colour, marker in (("original", ORIGINAL, "s"), ("REQNN", REVISED, "o")):
            rows = [row for row in kinds[kind].rows if row.name in place and not math.isnan(row.rotation_error)]
            panel.semilogy(
                [place[row.name] for row in rows],
                [max(row.rotation_error, FLOOR) for row in rows],
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=1.5,
                label=kind,
            )
        tolerance = kinds["REQNN"].tolerance
        panel.axhline(tolerance, color=FAINT, linestyle=":", linewidth=1)
        panel.text(len(names) - 1, tolerance * 1.6, f"tolerance {tolerance:.0e}", color=FAINT, fontsize=8, ha="right")
        panel.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        panel.set_title(title, loc="left", fontweight="bold")
        panel.grid(axis="y", alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("rotation error, relative")
    panels[0][0].set_ylim(FLOOR / 3, 300)
    panels[0][0].legend(frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.72))
    figure.suptitle("What a rotation of the input changes, layer by layer (float64)", x=0.01, ha="left")
    return _save(figure, path)


def draw_answers(networks: Mapping[str, nn.Module], test: PointClouds, path: Path) -> Path:
    """Some digits in several orientations, and under each picture the answer of each network, right ones in blue."""
    chosen, turns = _recognised(networks, test), _turns()
    figure, panels = plt.subplots(len(chosen), len(turns), figsize=(11, 2.9 * len(chosen)), squeeze=False)
    figure.subplots_adjust(left=0.28, right=0.99, top=0.93, bottom=0.05, hspace=0.35)
    for row, index in zip(panels, chosen, strict=True):
        clouds = torch.stack([test.points[index].double() @ turn.T for turn in turns])
        answers = [predict(net, clouds.float()).argmax(-1).tolist() for net in networks.values()]
        for place, panel in enumerate(row):
            _draw_cloud(panel, clouds[place])
            for line, given in enumerate(answers):
                right = given[place] == int(test.labels[index])
                panel.text(
                    *(0.5, -0.06 - 0.11 * line),
                    test.classes[given[place]],
                    transform=panel.transAxes,
                    ha="center",
                    fontsize=11,
                    fontweight="bold" if right else "normal",
                    color=REVISED if right else ORIGINAL,
                )
        for line, name in enumerate(networks):
            row[0].text(-0.12, -0.06 - 0.11 * line, name, transform=row[0].transAxes, ha="right", fontsize=9, color="#333333")
    figure.suptitle("The same digits, turned, and what each network takes them for (blue: right)", x=0.01, ha="left")
    return _save(figure, path)


def _recognised(networks: Mapping[str, nn.Module], test: PointClouds, count: int = 3) -> list[int]:
    """Digits of different classes that all networks recognise upright: the rest of the picture is about turning alone."""
    answers = torch.stack([predict(net, test.points).argmax(-1) for net in networks.values()])
    right = (answers == test.labels).all(0)
    order = [*right.nonzero().flatten().tolist(), *(~right).nonzero().flatten().tolist()]
    chosen: dict[int, int] = {}
    for index in order:
        chosen.setdefault(int(test.labels[index]), index)
    return [chosen[label] for label in (2, 3, 5, 4, 7, 0, 1, 6, 8, 9) if label in chosen][:count]


def _draw_cloud(panel: Any, xyz: Tensor) -> None:
    """Points (N, 3) seen along z, near ones dark."""
    behind = xyz[:, 2].argsort()
    x, y, depth = xyz[behind].T.numpy()
    panel.scatter(x, y, c=depth, cmap="Greys", vmin=-1.6, vmax=1.0, s=14, linewidths=0)
    panel.set_xlim(-1.1, 1.1)
    panel.set_ylim(-1.1, 1.1)
    panel.set_aspect("equal")
    panel.set_axis_off()


def draw_features(original: nn.Module, revised: nn.Module, clouds: Tensor, path: Path) -> Path:
    """The first of some clouds (B, N, 3), in four orientations with a feature at its points as arrows.

    Seen from above, along z. Upper row: the revised network; lower row: the original, three channels taken for a vector.
    """
    turns, cloud = _turns(), clouds[:1].double()
    at = points.farthest_point_sample(cloud, ARROWS)[0]
    figure, panels = plt.subplots(2, len(turns), figsize=(12, 7), layout="constrained")
    for row, (kind, net, colour) in enumerate((("REQNN", revised, REVISED), ("original", original, ORIGINAL))):
        net = copy.deepcopy(net).double().eval()
        features = [_features(net, cloud @ turn.T) for turn in turns]
        channel = _telling(features[0], cloud[0])
        for turn, field, panel in zip(turns, features, panels[row], strict=True):
            _draw_field(panel, (cloud @ turn.T)[0], field[channel], at, colour)
            expected = features[0][channel] @ turn.T
            error = float((field[channel] - expected).norm() / expected.norm())
            caption = f"turned, error {error:.1f}" if error > 0.1 else f"turned, error {error:.0e}"
            panel.set_title("as it comes" if turn is turns[0] else caption, fontsize=10, color=colour)
        panels[row][0].text(-1.2, 0, kind, rotation=90, va="center", ha="right", fontsize=13, fontweight="bold", color=colour)
    figure.suptitle(
        f"A feature of one layer ({LAYER} of a DGCNN) at the points of a digit, in four orientations\n"
        "Revised, it turns with the object: error ‖f(Rx) − R f(x)‖ / ‖f(x)‖.  In the original, three channels taken for a "
        "vector do not.",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return _save(figure, path)


def _draw_field(panel: Any, xyz: Tensor, field: Tensor, at: Tensor, colour: str) -> None:
    """Points (N, 3), near ones dark, and arrows (N, 3) at some of them; lengths are the same in all orientations."""
    behind = xyz[:, 2].argsort()
    x, y, depth = xyz[behind].T.numpy()
    panel.scatter(x, y, c=depth, cmap="Greys", vmin=-1.4, vmax=2.2, s=16, linewidths=0)
    vectors = field[at] / field.norm(dim=-1).quantile(0.8)
    draw_arrows(panel, xyz[at], vectors, colour, torch.eye(3, dtype=xyz.dtype), LENGTH, clip=True)
    panel.set_xlim(-1.15, 1.15)
    panel.set_ylim(-1.15, 1.15)
    panel.set_aspect("equal")
    panel.set_axis_off()


def _turns() -> list[Tensor]:
    """No rotation, about the view, and two that turn the object in depth."""
    axes = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.4]], dtype=torch.float64)
    angles = torch.tensor([0.0, 100.0, 55.0, 130.0], dtype=torch.float64).deg2rad()
    return list(quaternion.to_matrix(quaternion.from_axis_angle(axes, angles)))


def _features(net: nn.Module, cloud: Tensor) -> Tensor:
    """Features of a layer as vectors at the points, (C, N, 3); of the original, three channels make one."""
    seen: list[Any] = []
    handle = net.get_submodule(f"model.{LAYER}" if hasattr(net, "report") else LAYER).register_forward_hook(
        lambda module, args, output: seen.append(output)
    )
    with torch.no_grad():
        net(cloud)
    handle.remove()
    out = seen[0]
    if isinstance(out, QuaternionTensor):
        return out.imaginary()[:, 0].movedim(0, -1)  # (3, 1, C, N) → (C, N, 3)
    return out[0][: out.shape[1] // 3 * 3].unflatten(0, (-1, 3)).movedim(1, -1)


def _telling(features: Tensor, xyz: Tensor) -> int:
    """The channel that shows most: arrows that agree with their neighbours, and neither all alike nor all radial."""
    size = features.norm(dim=-1)
    unit = features / size.unsqueeze(-1).clamp(min=1e-12)  # (C, N, 3)
    near = points.knn(xyz[None], xyz[None], 8)[0]
    smooth = (unit.unsqueeze(2) * unit[:, near]).sum(-1).mean((1, 2))
    alike = unit.mean(1).norm(dim=-1)
    radial = (unit * torch.nn.functional.normalize(xyz, dim=-1)).sum(-1).abs().mean(1)
    return int((smooth * (1 - alike) * (1 - radial)).argmax())


def _save(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return path
