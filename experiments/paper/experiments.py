"""The cells of Table 4: a network, on a data set, trained in one of three ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from reqnn.errors import InputError

DATA = {"modelnet40": "ModelNet40", "3d-mnist": "3D MNIST"}
"""Data set → its name in the paper."""

NETWORKS = {"dgcnn": "DGCNN", "pointnet2": "PointNet++", "pointconv": "PointConv"}
"""Network → its name in the paper."""

TRAININGS = {
    "reqnn": "REQNN",
    "original": "original",
    "vertical": "original, vertical rotations",
}
"""Training → its name. Without rotations except `vertical`: about the vertical axis, y of ModelNet40 and z of 3D MNIST."""

TRAINING_SETTINGS: dict[str, dict[str, Any]] = {
    "reqnn": {"equivariant": True, "protocol": "NR"},
    "original": {"equivariant": False, "protocol": "NR"},
    "vertical": {"equivariant": False, "protocol": "vertical"},
}
"""Training → the only settings that differ."""


@dataclass(frozen=True)
class Experiment:
    """One cell of Table 4, by the keys of `DATA`, `NETWORKS` and `TRAININGS`."""

    data: str
    network: str
    training: str

    @property
    def key(self) -> str:
        """modelnet40/dgcnn/reqnn: what `--only` takes."""
        return f"{self.data}/{self.network}/{self.training}"

    @property
    def stem(self) -> str:
        """modelnet40-dgcnn-reqnn: the name of its files and of its run."""
        return f"{self.data}-{self.network}-{self.training}"

    @property
    def title(self) -> str:
        """DGCNN on ModelNet40: original, vertical rotations."""
        return f"{NETWORKS.get(self.network, self.network)} on {DATA[self.data]}: {TRAININGS[self.training]}"

    def command(self, budget: str, out: str) -> str:
        """The command that measures this cell."""
        return f"python -m experiments paper table4 --budget {budget} --only {self.key} --out {out}"


def experiments() -> list[Experiment]:
    """All cells in the order in which they are run: REQNN-DGCNN on ModelNet40 first."""
    return [Experiment(data, network, training) for data in DATA for network in NETWORKS for training in TRAININGS]


def select(patterns: Sequence[str]) -> list[Experiment]:
    """The cells that match the patterns, in their order; all without patterns.

    A pattern is a key or its prefix, `modelnet40/dgcnn`, with * for any part: `*/dgcnn/reqnn`.
    """
    chosen: list[Experiment] = []
    for pattern in patterns or ("*",):
        found = [one for one in experiments() if matches(one.key, pattern)]
        if not found:
            raise InputError(
                f"--only {pattern} names no cell of Table 4; a cell is DATA/NETWORK/TRAINING with {', '.join(DATA)}; "
                f"{', '.join(NETWORKS)}; {', '.join(TRAININGS)}; the end may be left out, and * stands for any of them"
            )
        chosen += [one for one in found if one not in chosen]
    return chosen


def matches(key: str, pattern: str) -> bool:
    """Whether a pattern is a key or its beginning, * standing for any part."""
    parts, wanted = key.split("/"), pattern.strip("/").split("/")
    return len(wanted) <= len(parts) and all(fnmatchcase(part, want) for part, want in zip(parts, wanted, strict=False))
