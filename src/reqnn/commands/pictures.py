"""The two pictures of the demo: where a network stops turning with its input, and features that never do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no window, no display

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from reqnn import quaternion
from reqnn.audit import AuditReport
from reqnn.tensor import QuaternionTensor

ORIGINAL, REVISED, POINT, FAINT = "#c44e52", "#2a6fb0", "#9aa5b1", "#6b7280"
FLOOR = 1e-17  # where an error of exactly 0 is drawn
LAYER = "conv5"
ARROWS = 64


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


def draw_features(original: nn.Module, revised: nn.Module, cloud: Tensor, clouds: Tensor, path: Path) -> Path:
    """One cloud (1, N, 3) in four orientations with a feature at each point as an arrow; above revised, below original."""
    turns = _turns()
    nets = {"REQNN": _ready(revised, clouds), "original": _ready(original, clouds)}
    features = {kind: [_features(net, cloud @ turn.T) for turn in turns] for kind, net in nets.items()}
    figure = plt.figure(figsize=(12, 6.6), layout="constrained")
    for row, (kind, colour) in enumerate((("REQNN", REVISED), ("original", ORIGINAL))):
        still = features[kind][0]
        channel = _telling(still, cloud[0])
        for column, turn in enumerate(turns):
            panel: Any = figure.add_subplot(2, 4, 4 * row + column + 1, projection="3d")
            field = features[kind][column][channel]
            _draw_field(panel, (cloud @ turn.T)[0], field, colour)
            expected = still[channel] @ turn.T
            error = float((field - expected).norm() / expected.norm())
            caption = "as it comes" if column == 0 else f"turned: ‖f(Rx) − R f(x)‖ / ‖f(x)‖ = {error:.0e}"
            panel.set_title(caption, fontsize=8.5, y=0.98, color=FAINT if column == 0 else colour)
    figure.suptitle(
        f"One feature of a DGCNN (layer {LAYER}) at the points of a digit, in four orientations\n"
        "Above, revised: quaternion features turn with the object.   "
        "Below, original: three channels drawn as a vector do not.",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return _save(figure, path)


def _draw_field(panel: Any, points: Tensor, field: Tensor, colour: str) -> None:
    """Points (N, 3), and arrows (N, 3) at every few of them."""
    x, y, z = points.T.numpy()
    panel.scatter(x, y, z, s=7, color=POINT, alpha=0.7, linewidths=0, depthshade=False)
    chosen = slice(0, ARROWS)
    lengths = field.norm(dim=-1, keepdim=True)
    u, v, w = (0.5 * field / lengths.quantile(0.9)).clamp(-0.8, 0.8)[chosen].T.numpy()
    panel.quiver(
        x[chosen], y[chosen], z[chosen], u, v, w, color=colour, linewidth=1.1, arrow_length_ratio=0.3, alpha=0.9
    )
    panel.set_xlim(-0.85, 0.85)
    panel.set_ylim(-0.85, 0.85)
    panel.set_zlim(-0.85, 0.85)
    panel.set_box_aspect((1, 1, 1), zoom=1.35)
    panel.view_init(elev=70, azim=-90)
    panel.set_axis_off()


def _turns() -> list[Tensor]:
    """No rotation, about the view, and two that turn the object in depth."""
    axes = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.4]], dtype=torch.float64)
    angles = torch.tensor([0.0, 100.0, 55.0, 140.0], dtype=torch.float64).deg2rad()
    return list(quaternion.to_matrix(quaternion.from_axis_angle(axes, angles)))


def _ready(net: nn.Module, clouds: Tensor) -> nn.Module:
    """In float64 and eval mode, with normalisation statistics of these clouds: one pass with momentum 1 sets them."""
    net = net.double().train()
    layers = [module for module in net.modules() if hasattr(module, "momentum")]
    for layer in layers:
        layer.momentum = 1.0
    with torch.no_grad():
        net(clouds.double())
    return net.eval()


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


def _telling(features: Tensor, points: Tensor) -> int:
    """The channel whose arrows vary most: long, and neither all along one direction nor all along the points' own."""
    size = features.norm(dim=-1)
    unit = features / size.unsqueeze(-1).clamp(min=1e-12)
    common = unit.mean(1).norm(dim=-1)  # (C,), 1 where all arrows are parallel
    radial = (unit * torch.nn.functional.normalize(points, dim=-1)).sum(-1).abs().mean(1)
    evenness = size.mean(1) / size.amax(1).clamp(min=1e-12)
    return int((evenness * (1 - common) * (1 - radial)).argmax())


def _save(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return path
