"""Compare reconstruction networks, upright and rotated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import random_rotations, rotate_by
from reqnn.revision.report import count_parameters
from reqnn.train.prediction import predict
from reqnn.train.reconstruction import ReconstructionEvaluation, evaluate_reconstruction
from reqnn.train.run import Run

SHOWN = 6  # objects in the picture


@dataclass(frozen=True)
class Comparison:
    """The results of one network, one per protocol."""

    name: str
    run: Run
    results: list[ReconstructionEvaluation]

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return count_parameters(self.run.model)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run": self.name,
            "config": self.run.config.without_folders(),
            "parameters": self.parameters,
            "training": self.run.metrics,
            "results": [result.to_dict() for result in self.results],
        }


def compare(
    loaded: dict[str, tuple[Run, PointClouds]],
    protocols: Sequence[str] = ("NR", "AR"),
    copies: int = 10,
    seed: int = 0,
    batch: int = 32,
    emd: int = 0,
) -> list[Comparison]:
    """Test each run on its clouds under each protocol, all with the same rotations."""
    return [
        Comparison(name, run, [evaluate_reconstruction(run.model, clouds, p, copies, seed, batch, emd) for p in protocols])
        for name, (run, clouds) in loaded.items()
    ]


def draw_comparison(loaded: dict[str, tuple[Run, PointClouds]], path: Path, seed: int = 0) -> Path:
    """Draw some test objects, upright and rotated, and their reconstructions."""
    from reqnn.train.cloud_pictures import BLUE, GREY, RED, camera, draw_grid

    clouds = next(iter(loaded.values()))[1]
    chosen = _different(clouds, SHOWN)
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
    titles = [clouds.classes[int(label)] for label in clouds.labels[chosen]]
    return draw_grid(rows, path, titles=titles, names=names, colours=colours, view=camera(clouds.up))


def _different(clouds: PointClouds, count: int) -> list[int]:
    """The first clouds of different classes."""
    first: dict[int, int] = {}
    for index, label in enumerate(clouds.labels.tolist()):
        first.setdefault(label, index)
    return [first[label] for label in sorted(first)][:count]
