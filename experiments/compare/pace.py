"""The time of a training step, interleaved for all rule sets and the original, so that other load affects them alike."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from filelock import FileLock
from torch import nn

from experiments.harness.files import write_result_file
from reqnn.errors import InputError
from reqnn.revision.report import count_parameters
from reqnn.train.config import TrainConfig
from reqnn.train.optimization import make_optimizer
from reqnn.train.run import build_network

CLASSES = 40


@dataclass(frozen=True)
class Pace:
    """A measured training step: the median seconds, and the settings that affect it."""

    seconds: float
    batch: int
    points: int
    parameters: int
    threads: int
    network: Mapping[str, object] = field(default_factory=dict)

    def is_of(self, config: TrainConfig) -> bool:
        """Whether it was measured with these settings."""
        return (self.batch, self.points, dict(self.network)) == (config.batch, config.points, _network(config))


def _network(config: TrainConfig) -> dict[str, object]:
    """The settings that affect the time of a step, as read back from JSON."""
    names = ("model", "equivariant", "options", "rules", "rule_options")
    found: dict[str, object] = json.loads(json.dumps({name: getattr(config, name) for name in names}))
    return found


def measure_pace(configs: Mapping[str, TrainConfig], repeats: int = 7) -> dict[str, Pace]:
    """The time of a step of each, name → settings; interleaved, after one untimed step each."""
    networks = {name: build_network(config, CLASSES).train() for name, config in configs.items()}
    optimizers = {name: make_optimizer(networks[name], config) for name, config in configs.items()}
    times: dict[str, list[float]] = {name: [] for name in configs}
    for repeat in range(repeats + 1):
        for name, config in configs.items():
            seconds = _step(networks[name], optimizers[name], config, repeat)
            if repeat:
                times[name].append(seconds)
    return {
        name: Pace(
            statistics.median(times[name]),
            config.batch,
            config.points,
            count_parameters(networks[name]),
            torch.get_num_threads(),
            _network(config),
        )
        for name, config in configs.items()
    }


def _step(network: nn.Module, optimizer: torch.optim.Optimizer, config: TrainConfig, seed: int) -> float:
    generator = torch.Generator().manual_seed(seed)
    points = F.normalize(torch.randn(config.batch, config.points, 3, generator=generator), dim=-1)
    labels = torch.randint(CLASSES, (config.batch,), generator=generator)
    begun = time.perf_counter()
    optimizer.zero_grad()
    F.cross_entropy(network(points), labels).backward()
    optimizer.step()
    return time.perf_counter() - begun


def settled_paces(path: Path, wanted: Mapping[str, Mapping[str, TrainConfig]], may_measure: bool) -> dict[str, Pace]:
    """The paces in a file; missing ones are measured and added to it.

    Processes that share the file wait for each other, so that all use the same paces.

    Args:
        wanted: network → name of a pace → its settings; the paces of a network are measured interleaved.
        may_measure: if False, a missing pace raises `InputError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        paces = read_paces(path)
        missing = [name for group in wanted.values() for name in group if not _known(paces, name, group[name])]
        if missing and not may_measure:
            raise InputError(f"{path} has no pace of {', '.join(missing)} yet; run the command without --show first")
        for group in wanted.values():
            if not all(_known(paces, name, group[name]) for name in group):
                kept = {name: paces[name] for name in group if _known(paces, name, group[name])}
                paces |= measure_pace(group) | kept
                write_paces(path, paces)
        return paces


def _known(paces: Mapping[str, Pace], name: str, config: TrainConfig) -> bool:
    return name in paces and paces[name].is_of(config)


def read_paces(path: Path) -> dict[str, Pace]:
    """Paces measured before, so that equal time stays the same when a comparison is resumed; empty without a file."""
    if not path.exists():
        return {}
    return {name: Pace(**values) for name, values in json.loads(path.read_text(encoding="utf-8"))["paces"].items()}


def write_paces(path: Path, paces: Mapping[str, Pace]) -> None:
    """Write the paces."""
    write_result_file(path, {"paces": {name: asdict(pace) for name, pace in paces.items()}})
