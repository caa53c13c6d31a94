"""One step, one epoch and one checkpoint of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reqnn.data.dataset import PointClouds
from reqnn.errors import InputError
from reqnn.revision.report import count_parameters
from reqnn.train import checkpoint
from reqnn.train.batches import Batches, targets
from reqnn.train.checkpoint import Progress
from reqnn.train.config import TrainConfig
from reqnn.train.optimization import learning_rate, moving_average_
from reqnn.train.prediction import predict, recalibrate
from reqnn.train.processes import seed_step
from reqnn.train.run import BEST, LAST, output_names, save_weights
from reqnn.train.task import Task, imitation_loss

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class Training:
    """The parts of a run; `network` and `wrapped` share their weights, `wrapped` synchronises the gradients."""

    config: TrainConfig
    task: Task
    fabric: Fabric
    network: nn.Module
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer
    average: nn.Module | None
    batches: Batches
    validation: PointClouds
    progress: Progress
    teacher: nn.Module | None = None

    def step(self, points: Tensor, labels: Tensor) -> None:
        """One optimizer step on this process's share of a batch: points (b, N, 3), labels (b,), (b, 1 + N) or (b, N, 3)."""
        config, progress, parts = self.config, self.progress, self.config.accumulate
        rate = learning_rate(config, progress.step, self.batches.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
        seed_step(config.seed, progress.step, self.fabric.global_rank)
        self.wrapped.train()
        for part, (some, wanted) in enumerate(zip(points.chunk(parts), labels.chunk(parts), strict=True)):
            with self.fabric.no_backward_sync(self.wrapped, enabled=part < parts - 1):  # type: ignore[arg-type]
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
        """Validate, add a row to the log, save the weights."""
        progress, metric = self.progress, self.task.metric
        candidate = self.network if self.average is None else self.average
        with self.fabric.autocast():
            recalibrate(candidate, self._recent_inputs())
        loss, score, count = self._summed(progress.sums)
        validation_loss, validation_score = self.validate(candidate)
        row = {
            "epoch": epoch,
            "step": progress.step,
            "lr": self.optimizer.param_groups[0]["lr"],
            "train_loss": loss / count,
            f"train_{metric}": score / count,
            "validation_loss": validation_loss,
            f"validation_{metric}": validation_score,
            "seconds": round(progress.seconds, 1),
        }
        better = progress.end_epoch(row, self.task)
        if self.fabric.is_global_zero:
            for name in (BEST, LAST) if better else (LAST,):
                save_weights(self.config.folder / name, candidate, self.config, output_names(self.config, self.validation), row)

    def validate(self, network: nn.Module) -> tuple[float, float]:
        """Loss and metric on the validation clouds, distributed over the processes."""
        mine = slice(self.fabric.global_rank, None, self.fabric.world_size)
        points, labels = self.validation.points[mine], targets(self.validation, self.config)[mine]
        loss, score = 0.0, 0.0
        if len(labels):
            with self.fabric.autocast():
                inputs = self.task.inputs(points, labels)
                outputs = predict(network, inputs[0], 64, *inputs[1:])
            points = points.to(outputs.dtype)
            loss = self.task.loss(outputs, points, labels).item() * len(labels)
            score = self.task.scores(outputs, points, labels).sum().item()
        loss, score, count = self._summed([loss, score, len(labels)])
        return loss / count, score / count

    def _recent_inputs(self) -> Iterator[tuple[Tensor, ...]]:
        """The inputs of the network in the last `recalibrate` training batches."""
        last = self.progress.step
        for step in range(max(0, last - self.config.recalibrate), last):
            yield self.task.inputs(*self.batches[step])

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
