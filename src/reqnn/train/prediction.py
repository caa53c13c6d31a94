"""Batched prediction, and batch-norm statistics for the current weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.nn.batch_norm import QuaternionBatchNorm
from reqnn.points import CloudBatch


@torch.no_grad()
def predict(model: nn.Module, points: Tensor | CloudBatch, batch: int = 64, *more: Tensor) -> Tensor:
    """Outputs in eval mode, batch by batch, on the network's device and in its dtype; the result on the CPU.

    Clouds of different sizes (`reqnn.collate`) are computed by size.

    Shapes: points (S, N, 3), further inputs (S, *) -> (S, classes) float32, or float64 for a network in float64
    """
    if isinstance(points, CloudBatch):
        answers: Tensor = points.map(lambda clouds: predict(model, clouds, batch))
        return answers
    like = next(model.parameters())
    with evaluating(model):
        parts = zip(*(x.to(like.dtype).split(batch) for x in (points, *more)), strict=True)
        logits = [model(*(x.to(like.device) for x in part)).cpu() for part in parts]
    if not logits:
        return torch.empty(0, 0)
    whole = torch.cat(logits)
    return whole if whole.dtype == torch.float64 else whole.float()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside this context; each module's mode is restored afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@torch.no_grad()
def recalibrate(model: nn.Module, batches: Iterable[Tensor | tuple[Tensor, ...]]) -> int:
    """Set the running statistics of all batch-norms to their means over some batches (B, N, 3); return the number of batches.

    A batch is a tuple if the network has further inputs. A running average lags by about ten steps: while weights change fast,
    a network in eval mode divides by outdated statistics, and where no mean is subtracted such factors multiply. All other
    layers are in eval mode. Without batches nothing changes.
    """
    like = next(model.parameters())
    norms = tracking_norms(model)
    momenta = [norm.momentum for norm in norms]
    count = 0
    try:
        with evaluating(model):
            for inputs in batches:
                for norm in norms if count == 0 else ():
                    norm.reset_parameters() if isinstance(norm, QuaternionBatchNorm) else norm.reset_running_stats()
                    norm.momentum, norm.training = None, True  # a plain mean over the batches
                model(*(x.to(like.device, like.dtype) for x in (inputs if isinstance(inputs, tuple) else (inputs,))))
                count += 1
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    return count


def tracking_norms(model: nn.Module) -> list[Any]:
    """The batch-norm modules with running statistics."""
    kinds = (nn.modules.batchnorm._BatchNorm, QuaternionBatchNorm)
    return [module for module in model.modules() if isinstance(module, kinds) and module.track_running_stats]
