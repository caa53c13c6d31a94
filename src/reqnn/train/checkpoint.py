"""Checkpoints: enough to resume a run bit for bit, written atomically."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.data.files import atomic_file, reading
from reqnn.errors import InputError
from reqnn.train.config import check_types
from reqnn.train.task import Task
from reqnn.train.weights import load_model_tensors, load_tensors, model_tensors, save_tensors, sync_folder

STATE, PREVIOUS = "state.safetensors", "state.previous.safetensors"


@dataclass
class Progress:
    """The progress of a run. It holds no random states: order, augmentation and dropout are functions of seed and step."""

    step: int = 0  # optimizer steps done
    best: float = -1.0  # validation metric
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)  # a row of the log per epoch
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # loss, metric and clouds of the current epoch
    seconds: float = 0.0
    inputs_fingerprint: dict[str, str] = field(default_factory=dict)  # of the clouds; and the precision

    def count(self, loss: float, score: float, clouds: int) -> None:
        """Add a forward pass: its mean loss, and the summed metric of its clouds."""
        self.sums = [self.sums[0] + loss * clouds, self.sums[1] + score, self.sums[2] + clouds]

    @property
    def loss(self) -> float:
        """The mean loss of the epoch so far."""
        return self.sums[0] / max(self.sums[2], 1)

    @property
    def metric(self) -> float:
        """The mean metric of the epoch so far."""
        return self.sums[1] / max(self.sums[2], 1)

    def end_epoch(self, row: dict[str, float], task: Task) -> bool:
        """Add an epoch's row to the log; return whether it is the best so far."""
        self.history.append(row)
        self.sums = [0.0, 0.0, 0.0]
        value = row[f"validation_{task.metric}"]
        better = not self.best_epoch or task.better(value, self.best)
        if better:
            self.best, self.best_epoch = value, int(row["epoch"])
        return better


def save_state(
    folder: Path, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer, average: nn.Module | None = None
) -> None:
    """Write the state; the previous one is kept as a backup."""
    networks = {"model": model} if average is None else {"model": model, "average": average}
    tensors = {f"{part}/{name}": tensor for part, net in networks.items() for name, tensor in model_tensors(net).items()}
    numbers: dict[str, Any] = {}
    for index, slot in optimizer.state_dict()["state"].items():
        for key, value in slot.items():
            (tensors if isinstance(value, Tensor) else numbers)[f"optimizer/{index}/{key}"] = value
    state, fresh = folder / STATE, folder / f"new.{STATE}"
    save_tensors(fresh, tensors, {"progress": asdict(progress), "optimizer": numbers})
    if state.exists():
        state.replace(folder / PREVIOUS)
    fresh.replace(state)
    sync_folder(folder)


def load_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: nn.Module | None = None
) -> Progress | None:
    """Restore the state of a run, or its backup if the state is damaged; None without a checkpoint."""
    problems = []
    for path in (path for path in (folder / STATE, folder / PREVIOUS) if path.exists()):
        try:
            with reading(path, "a checkpoint"):
                tensors, about = load_tensors(path)
                progress = dict(about["progress"])
                if "ground" in progress:  # the name in version 0.1
                    progress["inputs_fingerprint"] = progress.pop("ground")
                check_types(Progress, progress, str(path))
                parts: dict[str, dict[str, Any]] = {"model": {}, "average": {}, "optimizer": {}}
                for name, value in {**tensors, **about["optimizer"]}.items():
                    part, _, rest = name.partition("/")
                    parts[part][rest] = value
                load_model_tensors(model, parts["model"], str(path))
                if average is not None:
                    load_model_tensors(average, parts["average"], str(path))
                state: dict[int, dict[str, Any]] = {}
                for name, value in parts["optimizer"].items():
                    index, _, key = name.partition("/")
                    state.setdefault(int(index), {})[key] = value
                optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        except InputError as error:
            problems.append(str(error))
            continue
        if problems:
            print(f"{problems[0]}; resuming from {path.name}", file=sys.stderr)
        return Progress(**progress)
    if problems:
        raise InputError(f"no checkpoint can be read: {'; '.join(problems)}")
    return None


def check_disk(folder: Path, model: nn.Module, averaged: bool) -> None:
    """Raise `InputError` before training if the folder cannot be written to or is too full for the checkpoints."""
    weights = sum(tensor.nbytes for tensor in model_tensors(model).values())
    # Three states at a time, each with two moments of Adam; and best, last and one being written.
    needed = weights * (3 * (3 + averaged) + 3) + 10_000_000
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*.????????.*"):  # by a process that was killed while it wrote
            left.unlink()
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise InputError(f"--out {folder}: the folder cannot be written to ({error.strerror or error})") from error
    if free < needed:
        raise InputError(f"--out {folder}: {free / 1e6:.0f} MB are free; the checkpoints need about {needed / 1e6:.0f} MB")


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
