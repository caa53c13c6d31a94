"""The pictures of the demo that look inside: which layers, and which features, rotate with the object."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no window, no display

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from reqnn import points, quaternion
from reqnn.auditing import AuditReport
from reqnn.tensor import QuaternionTensor
from reqnn.train.cloud_pictures import camera, draw_arrows

ORIGINAL, REVISED, FAINT = "#c44e52", "#2a6fb0", "#6b7280"
FLOOR = 1e-17  # where an error of exactly 0 is drawn
LAYER = "conv5"
ARROWS, LENGTH = 56, 0.3
VIEW = camera("z")


def draw_errors(reports: Mapping[str, Mapping[str, AuditReport]], path: Path) -> Path:
    """Rotation error of each layer, original and REQNN, on a logarithmic scale; one panel per network."""
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


def draw_features(original: nn.Module, revised: nn.Module, clouds: Tensor, path: Path) -> Path:
    """The first of some clouds (B, N, 3), z up, in four orientations with a feature at its points as arrows.

    Upper row: the revised network; lower row: the original, three channels taken for a vector.
    """
    rotations, cloud = _rotations(), clouds[:1].double()
    at = points.farthest_point_sample(cloud, ARROWS)[0]
    figure, panels = plt.subplots(2, len(rotations), figsize=(12, 7), layout="constrained")
    for row, (kind, net, colour) in enumerate((("REQNN", revised, REVISED), ("original", original, ORIGINAL))):
        net = copy.deepcopy(net).double().eval()
        features = [_features(net, cloud @ rotation.T) for rotation in rotations]
        channel = _telling(features[0], cloud[0])
        for rotation, field, panel in zip(rotations, features, panels[row], strict=True):
            _draw_field(panel, (cloud @ rotation.T)[0], field[channel], at, colour)
            expected = features[0][channel] @ rotation.T
            error = float((field[channel] - expected).norm() / expected.norm())
            caption = f"rotated, error {error:.1f}" if error > 0.1 else f"rotated, error {error:.0e}"
            panel.set_title("upright" if rotation is rotations[0] else caption, fontsize=10, color=colour)
        panels[row][0].text(-1.2, 0, kind, rotation=90, va="center", ha="right", fontsize=13, fontweight="bold", color=colour)
    figure.suptitle(
        f"A feature of one layer ({LAYER} of a DGCNN) at the points of an object, in four orientations\n"
        "Revised, it rotates with the object: error ‖f(Rx) − R f(x)‖ / ‖f(x)‖.  In the original, three channels taken for a "
        "vector do not.",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return _save(figure, path)


def _draw_field(panel: Any, xyz: Tensor, field: Tensor, at: Tensor, colour: str) -> None:
    """Points (N, 3), near ones dark, and arrows (N, 3) at some of them; lengths are the same in all orientations."""
    seen = xyz @ VIEW.T
    x, y, depth = seen[seen[:, 2].argsort()].T.numpy()
    panel.scatter(x, y, c=depth, cmap="Greys", vmin=-1.4, vmax=2.2, s=16, linewidths=0)
    vectors = field[at] / field.norm(dim=-1).quantile(0.8)
    draw_arrows(panel, xyz[at], vectors, colour, VIEW, LENGTH, clip=True)
    panel.set_xlim(-1.15, 1.15)
    panel.set_ylim(-1.15, 1.15)
    panel.set_aspect("equal")
    panel.set_axis_off()


def _rotations() -> list[Tensor]:
    """No rotation, and three about different axes."""
    axes = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.4]], dtype=torch.float64)
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
