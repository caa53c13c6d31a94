"""Small clouds and small settings, so that a run takes a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reqnn.data import digits
from reqnn.data.dataset import PointClouds
from reqnn.train import TrainConfig

CLASSES = tuple("0123456789")


@pytest.fixture(scope="session")
def clouds() -> PointClouds:
    """96 digits of 24 points."""
    points, labels = digits("train", 24, limit=96)
    return PointClouds(points, labels, CLASSES, name="digits", split="train", up="y")


@pytest.fixture(scope="session")
def held_out() -> PointClouds:
    """40 other digits."""
    points, labels = digits("test", 24, limit=40)
    return PointClouds(points, labels, CLASSES, name="digits", split="test", up="y")


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., TrainConfig]:
    """Settings of a tiny PointNet with dropout; keywords override them."""

    def make(**given: Any) -> TrainConfig:
        values: dict[str, Any] = {
            "model": "pointnet",
            "options": {"width": 0.0625, "dropout": 0.3},
            "points": 24,
            "epochs": 2,
            "batch": 16,
            "optimizer": "adamw",
            "lr": 0.01,
            "recalibrate": 2,
            "threads": 1,
            "accelerator": "cpu",
            "out": str(tmp_path / "run"),
        }
        return TrainConfig(**{**values, **given})

    return make
