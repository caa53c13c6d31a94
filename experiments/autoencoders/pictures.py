"""Pictures of the autoencoders: reconstructions upright and rotated, and interpolated latents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from experiments.autoencoders.latent import decode, encode, interpolate
from experiments.pictures.clouds import BLUE, GREEN, GREY, RED, camera, draw_grid
from reqnn import quaternion
from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import random_rotations, rotate_by
from reqnn.revision.features import rotate_features
from reqnn.train.distance import chamfer_distance
from reqnn.train.evaluation import in_double
from reqnn.train.prediction import predict
from reqnn.train.run import Run

SHOWN = ("airplane", "chair", "guitar", "lamp", "car", "sofa")
COLOURS = (RED, BLUE, GREEN)
STEPS = 6


def draw_pictures(runs: Mapping[str, Run], test: PointClouds, path: Path) -> Path:
    """Some test objects upright and rotated, and their reconstructions with their Chamfer distances."""
    upright = first_of(test, SHOWN)
    titles = [test.classes[label] for label in shown_classes(test, SHOWN)]
    rotated = rotate_by(upright, random_rotations(len(upright), "AR", torch.Generator().manual_seed(1)))
    rows: list[list[Tensor]] = []
    names, captions, colours = [], [], []
    for state, given in (("upright", upright), ("rotated", rotated)):
        rows.append(list(given))
        names.append(f"input\n{state}")
        captions.append([""] * len(given))
        colours.append(GREY)
        for (name, run), colour in zip(runs.items(), COLOURS, strict=False):
            made = predict(in_double(run.model), given)
            rows.append(list(made))
            names.append(name.replace(", ", ",\n"))
            captions.append([f"{value:.3f}" for value in chamfer_distance(made, given).tolist()])
            colours.append(colour)
    return draw_grid(rows, path, titles=titles, names=names, captions=captions, colours=colours, view=camera(test.up), size=6.0)


def draw_mixtures(run: Run, test: PointClouds, path: Path) -> Path:
    """Decoded latents: interpolated between two objects, and one rotated."""
    net, clouds = in_double(run.model), first_of(test, ("chair", "sofa", "airplane", "lamp"))
    pairs = [(0, 1), (2, 3)] if len(clouds) > 3 else [(0, 1)]
    rows: list[list[Tensor]] = []
    names = []
    with torch.no_grad():
        latents = [encode(net, cloud[None]) for cloud in clouds]
        for a, b in pairs:
            between = decode(net, interpolate(net, latents[a], latents[b], STEPS))
            rows.append([clouds[a], *between, clouds[b]])
            names.append("between two\nlatents")
        axis = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
        angles = torch.linspace(0, 180, STEPS, dtype=torch.float64).deg2rad()
        rotations = quaternion.to_matrix(quaternion.from_axis_angle(axis.expand(STEPS, 3), angles))
        rotated = [decode(net, rotate_features(latents[0], one))[0] for one in rotations]  # type: ignore[arg-type]
        rows.append([clouds[0], *rotated, clouds[0] @ rotations[-1].T])
        names.append("one latent\nrotated, 0–180°")
    titles = ["input", *[""] * STEPS, "input"]
    return draw_grid(
        rows, path, titles=titles, names=names, colours=[BLUE, BLUE, GREEN][-len(rows) :], view=camera(test.up), size=6.0
    )


def first_of(test: PointClouds, labels: tuple[str, ...]) -> Tensor:
    """The first test object of each of these classes, or of the first classes if the data have none of them: float64."""
    known = shown_classes(test, labels)
    return torch.stack([test.points[int((test.labels == label).nonzero()[0])] for label in known]).double()


def shown_classes(test: PointClouds, names: tuple[str, ...]) -> list[int]:
    """The classes of these names, in lower or upper case; the first ones if the data have none of them."""
    known = {name.lower(): i for i, name in enumerate(test.classes)}
    return [known[name] for name in names if name in known] or list(range(len(names)))
