"""A trial: a network to train with given settings and to test upright and rotated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from reqnn.train.config import FREE, TrainConfig


@dataclass(frozen=True)
class Trial:
    """A network to train and test.

    Attributes:
        key: its name for users, modelnet40/dgcnn/reqnn.
        title: DGCNN on ModelNet40: REQNN.
        group: the subfolder of its result, table4/reduced.
        config: the settings of its run, without the folder.
        command: the command that measures it.
        copies: rotations per test shape.
        test_shapes: number of test shapes, a fixed choice; None for all of them.
        test_options: arguments of the network in the test that differ from training.
        after: the trial whose trained weights this one starts from.
    """

    key: str
    title: str
    group: str
    config: TrainConfig
    command: str
    copies: int = 10
    test_shapes: int | None = None
    test_options: Mapping[str, Any] = field(default_factory=dict)
    after: Trial | None = None

    @property
    def stem(self) -> str:
        """modelnet40-dgcnn-reqnn: the name of its files and of its run."""
        return self.key.replace("/", "-")

    @property
    def tested(self) -> TrainConfig:
        """The settings with the options that the network is tested with."""
        return replace(self.config, options={**self.config.options, **self.test_options})


def differing(config: TrainConfig, other: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """The settings that affect the weights and differ, options one by one: name → (of the first, of the second)."""
    found: dict[str, tuple[Any, Any]] = {}
    for item in fields(TrainConfig):
        if item.name in FREE or item.name == "threads":
            continue
        one, two = getattr(config, item.name), getattr(other, item.name)
        if isinstance(one, dict) and isinstance(two, dict):
            keys = [*one, *(key for key in two if key not in one)]
            found |= {key: (one.get(key), two.get(key)) for key in keys if _plain(one.get(key)) != _plain(two.get(key))}
        elif one != two:
            found[item.name] = one, two
    return found


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value
