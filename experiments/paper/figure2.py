"""Figure 2 of the paper: rotate the features inside a network, and the reconstructed cloud rotates with them.

The REQNN is revised from PointNet without transformers and pooling, so that all its features are quaternions. The features
after its "top fourth linear layer", the 1024-wide one, are rotated and decoded; the result is compared with the output for
the rotated cloud. Layers and loss are not in the paper and are inferred.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.paper.figure import Figure
from experiments.paper.shapes import (
    ANGLES,
    AXES,
    REAL,
    SHAPENET,
    Objects,
    choose_data,
    choose_objects,
    paper_rotations,
    trained,
)
from reqnn.revision.features import rotate_features
from reqnn.revision.module import RevisedModel
from reqnn.train.evaluation import in_double

LAYER = "conv5"
TOLERANCE = 1e-10
SETTINGS: dict[str, Any] = {
    "model": "pointnet_reconstruction",
    "task": "reconstruction",
    "points": 1024,
    "limit": 720,
    "batch": 8,
    "epochs": 2,
    "lr": 4e-3,
}
"""A minute or two of training on two cores per network: fewer clouds and epochs than in the paper."""


def figure2(runs: str | Path = "runs/paper", quiet: bool = False, **settings: Any) -> Figure:
    """Train both networks, or load them from the folder `runs`; rotate features, decode, compare. `settings` override ours."""
    given = {**SETTINGS, "data": choose_data(SHAPENET, REAL), **settings}
    objects = choose_objects(given["data"], given["points"])
    networks = {
        kind: in_double(
            trained(Path(runs), f"figure2-{given['data']}-{kind}", quiet, **given, equivariant=kind == "reqnn").model
        )
        for kind in ("reqnn", "original")
    }
    made = {kind: synthesise(net, objects.points) for kind, net in networks.items()}
    records = [_record(kind, objects, *clouds) for kind, clouds in made.items()]
    return Figure(
        "figure2",
        "Figure 2: features inside the network are rotated, and the reconstructed cloud rotates with them",
        lambda path: _draw(objects, made, path),
        [one for some in records for one in some],
        {**given, "layer": LAYER, "axes": AXES, "angles": ANGLES, "dtype": "float64", "tolerance": TOLERANCE},
        _notes(made),
    )


@torch.no_grad()
def synthesise(net: nn.Module, points: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs for rotated features and for rotated clouds, for the rotations (a) to (e).

    Shapes: points (S, N, 3) -> (5, S, N, 3), (5, S, N, 3)
    """
    rotations = paper_rotations()
    given = torch.stack([net(points @ r.T) for r in rotations])
    if isinstance(net, RevisedModel):
        features: Any = net.features(points, at=LAYER)
        return torch.stack([net.put_features(rotate_features(features, r), points, at=LAYER) for r in rotations]), given
    return torch.stack([_with_triples_rotated(net, points, r) for r in rotations]), given


def _with_triples_rotated(net: nn.Module, points: Tensor, rotation: Tensor) -> Tensor:
    """The same for an ordinary network: each three channels are taken as a vector; the rest is unchanged."""

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        whole = output.shape[1] // 3 * 3
        vectors = output[:, :whole].unflatten(1, (-1, 3))  # (B, C/3, 3, N)
        return torch.cat([torch.einsum("ij,bcjn->bcin", rotation, vectors).flatten(1, 2), output[:, whole:]], 1)

    handle = net.get_submodule(LAYER).register_forward_hook(hook)
    try:
        return net(points)
    finally:
        handle.remove()


def deviation(synthesised: Tensor, expected: Tensor) -> Tensor:
    """The largest distance between corresponding points, (..., N, 3) -> (...)."""
    return (synthesised - expected).norm(dim=-1).amax(-1)


def _record(kind: str, objects: Objects, synthesised: Tensor, expected: Tensor) -> list[dict[str, Any]]:
    differences = deviation(synthesised, expected)  # (5, S)
    errors = (expected[0] - objects.points).norm(dim=-1).mean(-1)
    return [
        {
            "network": kind,
            "object": name,
            "reconstruction_error": errors[s].item(),
            "difference": {letter: differences[i, s].item() for i, letter in enumerate("abcde")},
        }
        for s, name in enumerate(objects.names)
    ]


def _notes(made: dict[str, tuple[Tensor, Tensor]]) -> list[str]:
    worst = {kind: deviation(*clouds)[1:] for kind, clouds in made.items()}
    return [
        "Difference: the largest distance between a point decoded from rotated features and the same point of the output for "
        f"the rotated cloud, float64. REQNN: at most {worst['reqnn'].max():.0e}; original PointNet, its channels taken as "
        f"vectors by threes: {worst['original'].min():.2f} to {worst['original'].max():.2f}.",
        "With one vector per point and no pooling every feature is a multiple of its point's vector: this REQNN "
        "rescales points along their radius, and its half of the figure holds by construction.",
        "Layers and loss (mean squared error) are inferred, and the training is cut to minutes: the paper states neither. It "
        "trains on ShapeNet; here these are the shapes of ShapeNet Part, or other data if it is not there.",
    ]


def _draw(objects: Objects, made: dict[str, tuple[Tensor, Tensor]], path: Path) -> Path:
    from experiments.pictures.clouds import BLUE, GREY, RED, camera, draw_grid

    rotations = paper_rotations()
    rows: list[list[Tensor]] = []
    names: list[str] = []
    captions: list[list[str]] = []
    for s, name in enumerate(objects.names):
        rows.append([objects.points[s] @ r.T for r in rotations])
        names.append(f"{name}\noriginal")
        captions.append([])
        for kind, title in (("reqnn", "reconstructed\nREQNN"), ("original", "reconstructed\nPointNet")):
            synthesised, expected = made[kind]
            rows.append(list(synthesised[:, s]))
            names.append(title)
            error = float((expected[0, s] - objects.points[s]).norm(dim=-1).mean())
            differences = deviation(synthesised[1:, s], expected[1:, s]).tolist()
            captions.append([f"mean error {error:.2f}", *map(_caption, differences)])
    axes = [
        f"({letter})  [{x:.2f}, {y:.2f}, {z:.2f}], {angle:.0f}°"
        for letter, (x, y, z), angle in zip("bcde", AXES, ANGLES, strict=True)
    ]
    return draw_grid(
        rows,
        path,
        titles=["(a)  as it comes", *axes],
        names=names,
        captions=captions,
        colours=[GREY, BLUE, RED] * len(objects.names),
        view=camera(objects.up),
        size=3.0,
    )


def _caption(value: float) -> str:
    return f"difference {value:.2f}" if value > 0.01 else f"difference {value:.0e}"
