"""The settings of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import tyro

from reqnn.errors import InputError

Part = Literal["models", "rules", "kernels", "limit", "growth", "memory"]
Model = Literal["dgcnn", "pointnet2", "pointconv"]
WHAT: tuple[Part, ...] = get_args(Part)
MODELS: tuple[Model, ...] = get_args(Model)
TARGET_POINTS = 1024  # at which the ratios are asked for
KERNEL_TARGET_POINTS = 4096


@dataclass(frozen=True)
class Settings:
    """What to measure."""

    what: tuple[Part, ...] = WHAT
    """Parts of the benchmark."""
    models: tuple[Model, ...] = MODELS
    """Networks."""
    batch: tuple[int, ...] = (1, 4, 16)
    """Clouds in a batch."""
    points: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192)
    """Points in a cloud."""
    kernel_points: tuple[int, ...] = (1024, KERNEL_TARGET_POINTS)
    """Points in a cloud for the kernels."""
    growth_points: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384, 32768)
    """Points in a cloud for the growth."""
    threads: int = 2
    """Threads of torch and of the kernels."""
    repeats: int = 7
    """Repeats; three at most if a round takes longer than --max-seconds."""
    max_seconds: float = 60.0
    """Skip calls that take longer."""
    seed: int = 0
    """Seed of weights and clouds."""
    width: tyro.conf.Suppress[float] = 1.0
    """Width of the networks, 1 for the published ones."""
    brief: tyro.conf.Suppress[bool] = False
    """Measure memory for one comparison and rule sets for one network only."""

    def __post_init__(self) -> None:
        for name in ("batch", "points", "kernel_points", "growth_points"):
            values: Sequence[int] = getattr(self, name)
            if not values or min(values) < 1:
                raise InputError(f"--{name.replace('_', '-')} is {values}; at least one number above 0 is needed")
        if not self.what or not self.models:
            raise InputError(f"--what and --models need at least one of {', '.join(WHAT)} and of {', '.join(MODELS)}")
        if self.threads < 1 or self.repeats < 1 or self.max_seconds <= 0:
            raise InputError("--threads, --repeats and --max-seconds need numbers above 0")

    def sizes(self) -> list[tuple[int, int]]:
        """Batch size and number of points, the smallest input first: its time predicts that of larger ones."""
        pairs = [(batch, points) for batch in self.batch for points in self.points]
        return sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair[0]))

    def target_sizes(self) -> list[tuple[int, int]]:
        """The sizes at which ratios are asked for; all, where none is."""
        return [pair for pair in self.sizes() if pair[1] == TARGET_POINTS] or self.sizes()

    def quick(self) -> Settings:
        """A look at everything in less than a minute: narrow networks, small clouds; the targets do not apply to these."""
        return replace(
            self,
            batch=(2,),
            points=(512,),
            kernel_points=(1024,),
            growth_points=(1024, 2048, 4096),
            repeats=min(self.repeats, 3),
            max_seconds=min(self.max_seconds, 5.0),
            width=0.25,
            brief=True,
        )
