"""Figure 1 of the paper, with real features: a feature inside the network rotates with the cloud.

(a) a cloud and (b) the rotated cloud; (c) a quaternion feature of (a) at its points, (d) that of (b). The paper draws
d = Rotate(c); here both are computed by a trained REQNN of DGCNN, and the difference is measured. For comparison: the same
layer of the original network, with three channels taken as a vector.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.paper.figure import Figure
from experiments.paper.shapes import Objects, choose_data, choose_objects, trained
from reqnn import points, quaternion
from reqnn.revision.features import take_features
from reqnn.revision.module import RevisedModel
from reqnn.tensor import QuaternionTensor
from reqnn.train.evaluation import in_double

LAYER = "conv3"
SHOWN = 1  # of the objects: the chair, or the 4
AXIS, ANGLE = (0.3, 0.5, 1.0), 60.0
SETTINGS: dict[str, Any] = {
    "model": "dgcnn",
    "options": {"width": 0.25, "k": 16},
    "points": 256,
    "limit": 1000,
    "epochs": 2,
    "smoothing": 0.2,
    "rule_options": {},
    "scale": 0.0,
    "jitter": 0.0,
}
"""Half a minute of training on two cores."""


def figure1(runs: str | Path = "runs/paper", quiet: bool = False, **settings: Any) -> Figure:
    """Train both networks, or load them from the folder `runs`; measure a feature of a cloud and of the rotated cloud."""
    given = {**SETTINGS, "data": choose_data(), **settings}
    objects = choose_objects(given["data"], 4 * given["points"])
    matrix = rotation()
    fields, records = {}, []
    for kind in ("reqnn", "original"):
        run = trained(Path(runs), f"figure1-{given['data']}-{kind}", quiet, **given, equivariant=kind == "reqnn")
        net, cloud = in_double(run.model), objects.points[SHOWN, None]
        upright, rotated = (vectors_at(net, some)[:, 0] for some in (cloud, cloud @ matrix.T))  # (C, N, 3)
        error = (rotated - upright @ matrix.T).norm() / upright.norm()
        channel = clearest_channel(upright, cloud[0])
        fields[kind] = upright[channel], rotated[channel]
        records.append({"network": kind, "layer": LAYER, "channel": channel, "relative_error": error.item()})
    errors = {record["network"]: record["relative_error"] for record in records}
    return Figure(
        "figure1",
        "Figure 1: the cloud is rotated, and the feature inside the network rotates with it",
        lambda path: _draw(objects, matrix, fields, errors, path),
        records,
        {**given, "object": objects.names[SHOWN], "axis": AXIS, "angle": ANGLE, "dtype": "float64"},
        [
            f"‖g(Rx) − R g(x)‖ / ‖g(x)‖ over all channels of {LAYER}, float64: REQNN {errors['reqnn']:.0e}, original, its "
            f"channels taken for vectors by threes, {errors['original']:.2f}. One channel is drawn.",
        ],
    )


def rotation() -> Tensor:
    """(3, 3): by 60° about a slanted axis."""
    axis = torch.nn.functional.normalize(torch.tensor(AXIS, dtype=torch.float64), dim=-1)
    return quaternion.to_matrix(quaternion.from_axis_angle(axis, torch.tensor(ANGLE, dtype=torch.float64).deg2rad()))


@torch.no_grad()
def vectors_at(net: nn.Module, cloud: Tensor) -> Tensor:
    """Features of the layer as vectors at the points, (C, B, N, 3); of an ordinary network three channels make one."""
    if isinstance(net, RevisedModel):
        features = take_features(net, LAYER, (cloud,), {})
        assert isinstance(features, QuaternionTensor)
        return features.imaginary().permute(2, 1, 3, 0)
    seen: list[Tensor] = []
    handle = net.get_submodule(LAYER).register_forward_hook(lambda module, args, output: seen.append(output))
    try:
        net(cloud)
    finally:
        handle.remove()
    return seen[0][:, : seen[0].shape[1] // 3 * 3].unflatten(1, (-1, 3)).permute(1, 0, 3, 2)


def clearest_channel(features: Tensor, xyz: Tensor) -> int:
    """The channel (C, N, 3) to draw: arrows that agree with their neighbours, and are neither all equal nor all radial."""
    unit = torch.nn.functional.normalize(features, dim=-1)
    near = points.knn(xyz[None], xyz[None], 8)[0]
    smooth = (unit.unsqueeze(2) * unit[:, near]).sum(-1).mean((1, 2))
    alike = unit.mean(1).norm(dim=-1)
    radial = (unit * torch.nn.functional.normalize(xyz, dim=-1)).sum(-1).abs().mean(1)
    return int((smooth * (1 - alike) * (1 - radial)).argmax())


def _draw(
    objects: Objects, matrix: Tensor, fields: dict[str, tuple[Tensor, Tensor]], errors: dict[str, float], path: Path
) -> Path:
    from matplotlib.figure import Figure as Drawing

    from experiments.pictures.clouds import BLUE, GREY, RED, camera, draw_arrows, draw_cloud

    view, cloud = camera(objects.up), objects.points[SHOWN]
    clouds = (cloud, cloud @ matrix.T)
    shown = points.farthest_point_sample(cloud[None], 80)[0]
    figure = Drawing(figsize=(10.5, 7.4))
    figure.subplots_adjust(left=0.01, right=0.99, top=0.94, bottom=0.01, wspace=0.02, hspace=0.2)
    panels = figure.subplots(2, 3)
    titles = ("(a)  x, a cloud", f"(b)  Rotate(x), by {ANGLE:.0f}°")
    for row, (title, xyz) in enumerate(zip(titles, clouds, strict=True)):
        draw_cloud(panels[row][0], xyz, GREY, view, 7.0)
        panels[row][0].set_title(title, fontsize=11)
        for column, (kind, colour) in enumerate((("reqnn", BLUE), ("original", RED)), start=1):
            panel, field = panels[row][column], fields[kind][row]
            draw_cloud(panel, xyz, "#b6bcc6", view, 4.0)
            draw_arrows(panel, xyz[shown], field[shown] / field.norm(dim=-1).quantile(0.8), colour, view, 0.2)
            name = "REQNN" if kind == "reqnn" else "original network"
            value = f"{errors[kind]:.0e}" if errors[kind] < 0.01 else f"{errors[kind]:.2f}"
            texts = (f"(c)  g(x), {name}", f"(d)  g(Rotate(x)), {name}\n‖g(Rx) − R g(x)‖ / ‖g(x)‖ = {value}")
            panel.set_title(texts[row], fontsize=11, color=colour)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor="white")
    return path
