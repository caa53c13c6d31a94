"""The training loop.

    run = fit(preset("quick", model="dgcnn", equivariant=True, data="modelnet40"))
    reqnn train --preset quick --model dgcnn --equivariant --data modelnet40
    torchrun --nproc-per-node 8 -m reqnn.cli train --preset paper --model dgcnn --equivariant --data modelnet40

`fit` prepares, `walk` runs the steps; `Training` implements a step, an epoch and a checkpoint.
"""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from reqnn import data
from reqnn.data.dataset import PointClouds
from reqnn.data.loading import known_set
from reqnn.errors import InputError, Stopped
from reqnn.train import checkpoint
from reqnn.train.batches import Batches
from reqnn.train.checkpoint import Progress
from reqnn.train.config import TrainConfig, load_config, resumed
from reqnn.train.lock import locked
from reqnn.train.log import Display, RunLog
from reqnn.train.optimization import make_optimizer
from reqnn.train.processes import Interruption, connect, reproducible, resolved_precision
from reqnn.train.run import START, Run, build_network, load_run, output_names, start_from
from reqnn.train.sync import synchronise
from reqnn.train.task import make_task
from reqnn.train.training import Training
from reqnn.train.weights import weights_checksum

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def fit(
    config: TrainConfig,
    train: PointClouds | None = None,
    validation: PointClouds | None = None,
    *,
    model: nn.Module | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Run:
    """Train a network; the run's folder holds settings, log, weights and a checkpoint.

    Args:
        train, validation: clouds for training and for selecting the best weights. Default: those of the settings.
        model: your own network instead of that of the settings: clouds (B, N, 3) to logits (B, classes), or to clouds
            for reconstruction; for normals to vectors (B, N, 3);
            for segmentation clouds and one-hot categories to logits (B, N, parts).
        resume: resume the run in the folder, if any; reproduces the uninterrupted run bit for bit.
        quiet: print nothing.

    Raises:
        Stopped: after an interruption (Ctrl-C, SIGTERM), with a checkpoint written.
    """
    fabric = connect(config)
    with locked(config.folder / "run.lock") if fabric.is_global_zero else nullcontext() as holder:
        if (holder := fabric.broadcast(holder)) is not None:
            raise InputError(f"{config.folder} is being trained ({holder}); wait for it, or choose another --out")
        config = settle(config, fabric, resume)
        train, validation = choose_clouds(config, train, validation)
        on_cpu = fabric.device.type == "cpu"  # on other devices not every operation can be deterministic
        with reproducible(config.threads, deterministic=on_cpu), Interruption() as interruption:
            training = prepare(config, fabric, train, validation, model)
            walk(training, interruption, fabric.is_global_zero and not quiet)
        fabric.barrier()
        return load_run(config.folder, model=training.network)


def settle(config: TrainConfig, fabric: Fabric, resume: bool) -> TrainConfig:
    """The settings of the run: those given, merged with those of the run to resume."""
    settings = config.folder / "config.json"
    exists = bool(fabric.broadcast(settings.exists()))
    if exists and not resume:
        raise InputError(f"{config.folder} already holds a run; --resume continues it, another --out starts a new one")
    if exists:
        config = resumed(load_config(settings), config)
    fabric.barrier()  # all have read before one writes
    return replace(config, threads=config.threads or torch.get_num_threads())


def choose_clouds(
    config: TrainConfig, train: PointClouds | None = None, validation: PointClouds | None = None
) -> tuple[PointClouds, PointClouds]:
    """Training and validation clouds: those given, else those of the settings, split if needed.

    The split does not depend on the seed of the settings, so that runs with different seeds can be compared. A `fraction` of
    the training clouds is drawn by the seed; a larger fraction contains a smaller one.
    """
    if train is None:
        train = data.load(config.data, "train", points=config.sampled_from or config.points, root=config.root)
    if config.limit is not None and config.limit < len(train):
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        train = train.subset(order[: config.limit])
    if validation is None and config.task == "segmentation":
        known = known_set(config.data)
        if known is not None and known.validation:
            validation = data.load(config.data, "val", points=config.points, root=config.root)
    if validation is None:
        train, validation = data.split_validation(train, config.validation, seed=0)
    if not len(validation):
        raise InputError(f"{train.name}: no clouds are left for validation; raise validation or give more clouds")
    if config.fraction < 1:
        train, _ = data.split_validation(train, 1 - config.fraction, seed=config.seed)
    cut = {name: value[:, : config.points] for name in ("normals", "parts") if (value := getattr(validation, name)) is not None}
    return train, replace(validation, points=validation.points[:, : config.points], **cut)


def prepare(
    config: TrainConfig, fabric: Fabric, train: PointClouds, validation: PointClouds, model: nn.Module | None
) -> Training:
    """Build network, optimizer and batches, restore the checkpoint if any, and check the folder."""
    from reqnn.provenance import provenance

    names = output_names(config, train)
    network = build_network(config, len(names), len(train.classes)) if model is None else model
    begun = (config.folder / checkpoint.STATE).exists()
    began_with = start_from(network, config, names) if config.start_from is not None and not begun else None
    batches = Batches(train, config, fabric.global_rank, fabric.world_size)
    if fabric.is_global_zero:
        checkpoint.check_disk(config.folder, network, config.ema > 0)
        checkpoint.write_text(config.folder / "config.json", config.to_json())
        if not begun:
            checkpoint.write_json(config.folder / "versions.json", provenance())
        if began_with is not None:
            checkpoint.write_json(config.folder / START, began_with)
    if fabric.world_size > 1:
        synchronise(network)
    wrapped, optimizer = fabric.setup(network, make_optimizer(network, config))
    average = copy.deepcopy(network) if config.ema else None
    progress = checkpoint.load_state(config.folder, network, optimizer, average) or Progress()
    precision = resolved_precision(config, fabric.device.type)
    teacher = None if config.teacher is None else fabric.to_device(load_teacher(config.teacher, names))
    now = {"training": train.fingerprint(), "validation": validation.fingerprint(), "precision": precision}
    now |= {} if teacher is None else {"teacher": weights_checksum(teacher)}
    check_inputs(progress.inputs_fingerprint, now, config.folder)
    progress.inputs_fingerprint = now
    task = make_task(config, train)
    return Training(config, task, fabric, network, wrapped, optimizer, average, batches, validation, progress, teacher)


def load_teacher(source: str, classes: tuple[str, ...]) -> nn.Module:
    """A trained network in eval mode; `InputError` unless its answers are these classes in this order."""
    teacher = load_run(source)
    if tuple(teacher.classes) != classes:
        raise InputError(f"the teacher {source} answers other classes than those of the data; train one on the same data set")
    return teacher.model.requires_grad_(False)


def check_inputs(before: dict[str, str], now: dict[str, str], folder: Path) -> None:
    """`InputError` if the clouds, the teacher or the precision are not those that the run was started with."""
    for name in ("training", "validation", "teacher"):
        if before.get(name, now.get(name)) != now.get(name):
            thing = "teacher's weights are" if name == "teacher" else f"{name} clouds are"
            raise InputError(
                f"{folder}: the {thing} not those that the run was started with, so its result would change; restore them, "
                "or start a new run"
            )
    if before.get("precision", now["precision"]) != now["precision"]:
        raise InputError(
            f"{folder}: the run was started in {before['precision']}, and would continue in {now['precision']} here; choose "
            "the device with --accelerator"
        )


def walk(training: Training, interruption: Interruption, shown: bool) -> None:
    """Run the remaining steps: step, validate at the end of an epoch, write checkpoints, stop if asked."""
    config, fabric, progress, batches = training.config, training.fabric, training.progress, training.batches
    task = training.task
    log = RunLog(config.folder, task, config.tensorboard, progress.step) if fabric.is_global_zero else None
    begun = saved = time.monotonic()
    before = progress.seconds
    with Display(task, config.epochs, len(batches), progress.step, config.batch, shown) as display:
        display.line(headline(training))
        for points, labels in batches.loader(progress.step, pinned=fabric.device.type == "cuda"):
            epoch = progress.step // batches.steps_per_epoch + 1
            training.step(*fabric.to_device((points, labels)))
            progress.seconds = before + time.monotonic() - begun
            display.step(progress.step, epoch, progress.loss, progress.metric)
            if progress.step % batches.steps_per_epoch == 0:
                training.end_epoch(epoch)
                display.epoch(progress.history[-1], progress.best)
                if log is not None:
                    log.write(progress.history, training.metrics())
            stop = training.agreed(interruption.asked)
            due = time.monotonic() - saved > config.checkpoint_seconds
            if stop or due or (config.checkpoint_steps and progress.step % config.checkpoint_steps == 0):
                training.save()
                saved = time.monotonic()
            if stop:
                display.line(f"stopped after step {progress.step}; resume: reqnn train --resume --out {config.folder}")
                raise Stopped(f"interrupted after step {progress.step}")
        training.save()
        if log is not None:
            log.write(progress.history, training.metrics(), final=True)
        best = f"best validation {task.metric} {task.show(progress.best)} in epoch {progress.best_epoch}"
        display.line(f"{best}; test it: reqnn eval {config.folder} --protocol NR AR")


def headline(training: Training) -> str:
    """One line about network, data and device."""
    config, progress, processes = training.config, training.progress, training.fabric.world_size
    return (
        f"{'REQNN of ' * config.equivariant}{config.model} on {config.data}: "
        f"{len(training.batches.clouds)} clouds of {config.points} points to train, {len(training.validation)} to validate; "
        f"{training.fabric.device.type}, {processes} process{'es' * (processes > 1)}, "
        f"{config.threads} thread{'s' * (config.threads > 1)}; "
        f"{config.folder}{f', from step {progress.step}' * (progress.step > 0)}"
    )
