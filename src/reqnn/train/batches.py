"""The batch of each step as a function of the step: order and augmentation depend on nothing else.

So a run that is resumed in the middle of an epoch sees the same batches, with any number of workers.
"""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from reqnn.data.augmentation import Augmentation, random_subset
from reqnn.data.dataset import PointClouds
from reqnn.data.rotation import rotate
from reqnn.errors import InputError
from reqnn.train.config import TrainConfig

ORDER, AUGMENTATION, FORWARD = range(3)
"""Random streams, one for each use of the seed."""


def derived_seed(*parts: int) -> int:
    """A 63-bit seed from several numbers, such as (seed, stream, step)."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """Item s is this process's share of the batch of step s, counted from 0 over all epochs.

    Each epoch has its own order; an incomplete last batch is dropped.

    Shapes: item: points (batch / processes, N, 3), labels (batch / processes,), for segmentation
        (batch / processes, 1 + N), for normals (batch / processes, N, 3)
    """

    def __init__(self, clouds: PointClouds, config: TrainConfig, rank: int = 0, processes: int = 1) -> None:
        if len(clouds) < config.batch:
            raise InputError(f"batch is {config.batch}, but there are only {len(clouds)} training clouds; reduce it")
        wanted, present = config.sampled_from or config.points, clouds.points.shape[1]
        if present < wanted:
            setting = "sampled_from" if config.sampled_from else "points"
            raise InputError(f"{setting} is {wanted}, but the clouds have only {present} points")
        self.clouds, self.config, self.rank, self.processes = clouds, config, rank, processes
        self.targets = targets(clouds, config)
        self.steps_per_epoch = len(clouds) // config.batch
        self.augmentation = augmentation(config, clouds.up)
        self._order: tuple[int, Tensor] | None = None

    def __len__(self) -> int:
        return self.steps_per_epoch * self.config.epochs

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        config, (epoch, place) = self.config, divmod(step, self.steps_per_epoch)
        index = self._epoch_order(epoch)[place * config.batch : (place + 1) * config.batch]
        points, labels, augmentation = self.clouds.points[index], self.targets[index], self.augmentation
        generator = torch.Generator().manual_seed(derived_seed(config.seed, AUGMENTATION, step))
        # Each process augments the whole batch, so that the result does not depend on their number.
        chosen = torch.arange(config.sampled_from or config.points).expand(len(index), -1).unsqueeze(-1)
        if config.sampled_from:
            chosen = random_subset(chosen, generator, config.points)
        points = points.take_along_dim(chosen, 1)
        if labels.dim() == 2:
            labels = torch.cat([labels[:, :1], labels[:, 1:].take_along_dim(chosen[..., 0], 1)], dim=1)
        if labels.dim() == 3:  # normals rotate with the cloud
            both = torch.cat([points, labels.take_along_dim(chosen, 1)], dim=1)
            points, labels = rotate(both, augmentation.rotation, generator)[0].chunk(2, dim=1)
            augmentation = replace(augmentation, rotation="NR")
        share = config.batch // self.processes
        mine = slice(self.rank * share, (self.rank + 1) * share)
        return augmentation(points, generator)[mine], labels[mine]

    def _epoch_order(self, epoch: int) -> Tensor:
        if self._order is None or self._order[0] != epoch:
            generator = torch.Generator().manual_seed(derived_seed(self.config.seed, ORDER, epoch))
            self._order = epoch, torch.randperm(len(self.clouds), generator=generator)
        return self._order[1]

    def loader(self, start: int, pinned: bool = False) -> DataLoader[tuple[Tensor, Tensor]]:
        """The batches from step `start` to the end of the run, prepared by the configured number of workers."""
        return DataLoader(
            self,
            batch_size=None,
            sampler=range(start, len(self)),
            num_workers=self.config.workers,
            pin_memory=pinned,
            worker_init_fn=_ignore_interrupts,
        )


def targets(clouds: PointClouds, config: TrainConfig) -> Tensor:
    """What the task compares with: labels (S,); for segmentation labels and parts, (S, 1 + N); or normals (S, N, 3)."""
    if config.task == "normals":
        return normals_of(clouds)
    if config.task != "segmentation":
        return clouds.labels
    if clouds.parts is None:
        raise InputError(f"{clouds.name} has no parts to learn; choose a data set that has, such as shapenet-part")
    return torch.cat([clouds.labels[:, None], clouds.parts], dim=1)


def normals_of(clouds: PointClouds) -> Tensor:
    """The normals (S, N, 3); `InputError` if there are none."""
    if clouds.normals is None:
        raise InputError(f"{clouds.name} has no normals; choose a data set that has, such as scanned, or a folder of meshes")
    return clouds.normals


def augmentation(config: TrainConfig, up: str) -> Augmentation:
    """The augmentation of the settings, for a data set with this vertical axis."""
    return Augmentation(
        scale=(1 / (1 + config.scale), 1 + config.scale),
        stretch=(1 / (1 + config.stretch), 1 + config.stretch),
        jitter=config.jitter,
        dropout=config.point_dropout,
        rotation=up if config.protocol == "vertical" else config.protocol,
    )


def _ignore_interrupts(worker: int) -> None:
    """Ctrl-C reaches the workers too, but the training process decides when they end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
