"""A trial: a network to train with given settings and to test upright and rotated; perhaps from the weights of another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from reqnn.train.checkpoint import STATE
from reqnn.train.config import FREE, TrainConfig, load_config


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
    without = {*FREE, "threads"} | (set() if config.equivariant or other.equivariant else {"rules", "rule_options"})
    for item in fields(TrainConfig):
        if item.name in without:
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


def run_folder(runs: str | Path, one: Trial) -> Path:
    """The folder of a trial's run, by group and key."""
    return Path(runs) / Path(one.group).name / one.stem


def in_order(trials: Sequence[Trial], runs: str | Path) -> list[Trial]:
    """Each trial after the one that it waits for."""
    found: list[Trial] = []
    for one in trials:
        before = in_order([one.after], runs) if one.after is not None and waits(one, runs) else []
        found += [some for some in (*before, one) if some not in found]
    return found


def waits(one: Trial, runs: str | Path) -> bool:
    """Whether a trial has not started, and the one whose weights it starts from is not trained."""
    return one.after is not None and not _begun(run_folder(runs, one)) and not _finished(run_folder(runs, one.after))


def run_settings(one: Trial, runs: str | Path) -> TrainConfig:
    """The settings of a trial's run, with its folder and the folder of the weights that it starts from."""
    folder, start = run_folder(runs, one), one.config.start_from
    if one.after is not None:
        start = load_config(folder / "config.json").start_from if _begun(folder) else str(run_folder(runs, one.after))
        if not _begun(folder):  # settings of a run that was stopped before its first checkpoint may name another folder
            (folder / "config.json").unlink(missing_ok=True)
    return replace(one.config, out=str(folder), start_from=start)


def _begun(folder: Path) -> bool:
    return (folder / STATE).exists()


def _finished(folder: Path) -> bool:
    report = folder / "metrics.json"
    return report.exists() and bool(json.loads(report.read_text(encoding="utf-8")).get("finished"))
