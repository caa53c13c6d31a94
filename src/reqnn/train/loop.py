"""The training loop.

    run = fit(preset("quick", model="dgcnn", equivariant=True, data="modelnet40"))
    reqnn train --preset quick --model dgcnn --equivariant --data modelnet40
    torchrun --nproc-per-node 8 -m reqnn.cli train --preset paper --model dgcnn --equivariant --data modelnet40

`fit` locks the folder and finds settings and clouds; `Training` builds network and optimizer, or restores them, and runs.
"""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reqnn import data
from reqnn.data.dataset import PointClouds
from reqnn.data.loading import known_set
from reqnn.errors import InputError, Stopped
from reqnn.provenance import provenance
from reqnn.revision.report import count_parameters
from reqnn.train import checkpoint
from reqnn.train.batches import Batches, targets
from reqnn.train.checkpoint import Progress
from reqnn.train.config import TrainConfig, load_config, resumed
from reqnn.train.log import Display, RunLog
from reqnn.train.optimization import learning_rate, make_optimizer, moving_average_
from reqnn.train.prediction import predict, recalibrate
from reqnn.train.processes import connect, interruptible, locked, reproducible, resolved_precision, seed_step
from reqnn.train.run import BEST, LAST, START, Run, build_network, load_run, output_names, save_weights, start_from
from reqnn.train.sync import synchronise
from reqnn.train.task import imitation_loss, make_task
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
    fabric, settings = connect(config), config.folder / "config.json"
    with locked(config.folder / "run.lock") if fabric.is_global_zero else nullcontext() as holder:
        if (holder := fabric.broadcast(holder)) is not None:
            raise InputError(f"{config.folder} is being trained ({holder}); wait for it, or choose another --out")
        if fabric.broadcast(settings.exists()):
            if not resume:
                raise InputError(f"{config.folder} already holds a run; --resume continues it, another --out starts a new one")
            config = resumed(load_config(settings), config)
        fabric.barrier()  # all have read before one writes
        config = replace(config, threads=config.threads or torch.get_num_threads())
        train, validation = choose_clouds(config, train, validation)
        on_cpu = fabric.device.type == "cpu"  # on other devices not every operation can be deterministic
        with reproducible(config.threads, deterministic=on_cpu), interruptible() as asked:
            training = Training(config, fabric, train, validation, model)
            training.run(asked, shown=fabric.is_global_zero and not quiet)
        fabric.barrier()
        return load_run(config.folder, model=training.network)


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


class Training:
    """A run: `network` and `wrapped` share their weights, `wrapped` synchronises the gradients."""

    def __init__(
        self, config: TrainConfig, fabric: Fabric, train: PointClouds, validation: PointClouds, model: nn.Module | None
    ) -> None:
        self.config, self.fabric, self.validation = config, fabric, validation
        self.task, self.classes = make_task(config, train), output_names(config, train)
        self.network = build_network(config, len(self.classes), len(train.classes)) if model is None else model
        begun = (config.folder / checkpoint.STATE).exists()
        start = None if begun or config.start_from is None else start_from(self.network, config, self.classes)
        self.batches = Batches(train, config, fabric.global_rank, fabric.world_size)
        if fabric.is_global_zero:
            checkpoint.check_disk(config.folder, self.network, config.ema > 0)
            checkpoint.write_text(config.folder / "config.json", config.to_json())
            if not begun:
                checkpoint.write_json(config.folder / "versions.json", provenance())
            if start is not None:
                checkpoint.write_json(config.folder / START, start)
        if fabric.world_size > 1:
            synchronise(self.network)
        self.wrapped, self.optimizer = fabric.setup(self.network, make_optimizer(self.network, config))
        self.average = copy.deepcopy(self.network) if config.ema else None
        state = checkpoint.load_state(config.folder, self.network, self.optimizer, self.average)
        self.progress = state or Progress()
        self.teacher: nn.Module | None = None
        if config.teacher is not None:
            teacher = load_run(config.teacher)
            if teacher.classes != self.classes:
                other = f"the teacher {config.teacher} answers other classes than those of the data"
                raise InputError(f"{other}; train one on the same data set")
            self.teacher = fabric.to_device(teacher.model.requires_grad_(False))
        self._check_inputs()

    def _check_inputs(self) -> None:
        """`InputError` if clouds, teacher or precision are not those that the run was started with."""
        now = {"training": self.batches.clouds.fingerprint(), "validation": self.validation.fingerprint()}
        now["precision"] = resolved_precision(self.config, self.fabric.device.type)
        now |= {} if self.teacher is None else {"teacher": weights_checksum(self.teacher)}
        before, self.progress.inputs_fingerprint = self.progress.inputs_fingerprint, now
        for name, value in now.items():
            if (old := before.get(name, value)) == value:
                continue
            if name == "precision":
                what = f"the run was started in {old}, and would continue in {value} here; choose the device with --accelerator"
            else:
                what = "the teacher's weights are" if name == "teacher" else f"the {name} clouds are"
                what += " not those that the run was started with, so its result would change; restore them, or start a new run"
            raise InputError(f"{self.config.folder}: {what}")

    def run(self, asked: list[int], shown: bool) -> None:
        """The remaining steps, with a validation after each epoch and checkpoints between; stops once `asked` is not empty."""
        config, fabric, progress, batches, task = self.config, self.fabric, self.progress, self.batches, self.task
        log = RunLog(config.folder, task, config.tensorboard, progress.step) if fabric.is_global_zero else None
        begun, saved = time.monotonic() - progress.seconds, time.monotonic()
        with Display(task, config.epochs, len(batches), progress.step, config.batch, shown) as display:
            display.line(
                f"{'REQNN of ' * config.equivariant}{config.model} on {config.data}: "
                f"{len(batches.clouds)} clouds of {config.points} points to train, {len(self.validation)} to validate; "
                f"{fabric.device.type}, {fabric.world_size} process{'es' * (fabric.world_size > 1)}, "
                f"{config.threads} thread{'s' * (config.threads > 1)}; "
                f"{config.folder}{f', from step {progress.step}' * (progress.step > 0)}"
            )
            for points, labels in batches.loader(progress.step, pinned=fabric.device.type == "cuda"):
                epoch = progress.step // batches.steps_per_epoch + 1
                self.step(*fabric.to_device((points, labels)))
                progress.seconds = time.monotonic() - begun
                display.step(progress.step, epoch, progress.loss, progress.metric)
                if progress.step % batches.steps_per_epoch == 0:
                    self.end_epoch(epoch)
                    display.epoch(progress.history[-1], progress.best)
                    if log is not None:
                        log.write(progress.history, self.metrics())
                stop = self.agreed(bool(asked))
                due = time.monotonic() - saved > config.checkpoint_seconds
                if stop or due or (config.checkpoint_steps and progress.step % config.checkpoint_steps == 0):
                    self.save()
                    saved = time.monotonic()
                if stop:
                    display.line(f"stopped after step {progress.step}; resume: reqnn train --resume --out {config.folder}")
                    raise Stopped(f"interrupted after step {progress.step}")
            self.save()
            if log is not None:
                log.write(progress.history, self.metrics(), final=True)
            best = f"best validation {task.metric} {task.show(progress.best)} in epoch {progress.best_epoch}"
            display.line(f"{best}; test it: reqnn eval {config.folder} --protocol NR AR")

    def step(self, points: Tensor, labels: Tensor) -> None:
        """One optimizer step on this process's share of a batch: points (b, N, 3), labels (b,), (b, 1 + N) or (b, N, 3)."""
        config, progress, parts = self.config, self.progress, self.config.accumulate
        rate = learning_rate(config, progress.step, self.batches.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
        seed_step(config.seed, progress.step, self.fabric.global_rank)
        self.wrapped.train()
        for part, (some, wanted) in enumerate(zip(points.chunk(parts), labels.chunk(parts), strict=True)):
            with self.fabric.no_backward_sync(self.wrapped, enabled=part < parts - 1):
                outputs = self.wrapped(*self.task.inputs(some, wanted))
                loss = self.task.loss(outputs, some, wanted)
                if self.teacher is not None:
                    loss = loss.lerp(imitation_loss(outputs, self.teacher, some), config.teacher_share)
                self.fabric.backward(loss / parts)
            progress.count(loss.item(), self.task.scores(outputs.detach(), some, wanted).sum().item(), len(wanted))
            if not loss.isfinite():
                raise InputError(f"the loss is {loss} in step {progress.step}, lr {rate:.2g}; a smaller lr or clip may help")
        if config.clip:
            self.fabric.clip_gradients(self.wrapped, self.optimizer, max_norm=config.clip, error_if_nonfinite=False)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            moving_average_(self.average, self.network, config.ema, progress.step)
        progress.step += 1

    def end_epoch(self, epoch: int) -> None:
        """Recalibrate batch-norms, validate (each process its share), add a row to the log, save the weights."""
        config, progress, task, metric = self.config, self.progress, self.task, self.task.metric
        candidate = self.network if self.average is None else self.average
        mine = slice(self.fabric.global_rank, None, self.fabric.world_size)
        points, labels = self.validation.points[mine], targets(self.validation, config)[mine]
        found = [0.0, 0.0, float(len(labels))]
        with self.fabric.autocast():
            recent = range(max(0, progress.step - config.recalibrate), progress.step)
            recalibrate(candidate, (task.inputs(*self.batches[step]) for step in recent))
            if len(labels):
                cloud, *more = task.inputs(points, labels)
                outputs = predict(candidate, cloud, 64, *more)
        if len(labels):
            points = points.to(outputs.dtype)
            found[0] = task.loss(outputs, points, labels).item() * len(labels)
            found[1] = task.scores(outputs, points, labels).sum().item()
        loss, score, count = self._summed(progress.sums)
        validation_loss, validation_score, validated = self._summed(found)
        row = {
            "epoch": epoch,
            "step": progress.step,
            "lr": self.optimizer.param_groups[0]["lr"],
            "train_loss": loss / count,
            f"train_{metric}": score / count,
            "validation_loss": validation_loss / validated,
            f"validation_{metric}": validation_score / validated,
            "seconds": round(progress.seconds, 1),
        }
        better = progress.end_epoch(row, task)
        if self.fabric.is_global_zero:
            for name in (BEST, LAST) if better else (LAST,):
                save_weights(config.folder / name, candidate, config, self.classes, row)

    def save(self) -> None:
        """Write a checkpoint."""
        if self.fabric.is_global_zero:
            checkpoint.save_state(self.config.folder, self.progress, self.network, self.optimizer, self.average)

    def metrics(self) -> dict[str, Any]:
        """The results so far, for metrics.json."""
        progress = self.progress
        return {
            "task": self.task.name,
            f"best_validation_{self.task.metric}": progress.best,
            "best_epoch": progress.best_epoch,
            "best": next((row for row in progress.history if row["epoch"] == progress.best_epoch), None),
            "last": progress.history[-1] if progress.history else None,
            "finished": progress.step == len(self.batches),
            "parameters": count_parameters(self.network),
            "training_clouds": len(self.batches.clouds),
            "validation_clouds": len(self.validation),
        }

    def agreed(self, asked: bool) -> bool:
        """Whether any process was asked to stop: all must stop after the same step."""
        return self._summed([float(asked)])[0] > 0

    def _summed(self, values: list[float]) -> list[float]:
        """Numbers summed over the processes."""
        if self.fabric.world_size == 1:
            return values
        precise = torch.float32 if self.fabric.device.type == "mps" else torch.float64
        total: Any = self.fabric.all_reduce(torch.tensor(values, dtype=precise, device=self.fabric.device), reduce_op="sum")
        return total.tolist()
