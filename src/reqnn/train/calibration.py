"""Recompute batch-norm statistics for the current weights.

A running average lags by about ten steps. While weights change fast, a network in eval mode then divides by outdated
statistics; in a quaternion network, where no mean is subtracted, such factors multiply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.nn.batch_norm import QuaternionBatchNorm
from reqnn.train.prediction import evaluating


@torch.no_grad()
def recalibrate(model: nn.Module, batches: Iterable[Tensor]) -> int:
    """Set the running statistics of all batch-norms to their means over some batches (B, N, 3); return the number of batches.

    All other layers are in eval mode, so there is no dropout. Without batches nothing changes.
    """
    like = next(model.parameters())
    norms = tracking_norms(model)
    momenta = [norm.momentum for norm in norms]
    count = 0
    try:
        with evaluating(model):
            for points in batches:
                if count == 0:
                    _restart(norms)
                model(points.to(like.device, like.dtype))
                count += 1
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    return count


def tracking_norms(model: nn.Module) -> list[Any]:
    """The batch-norm modules with running statistics."""
    kinds = (nn.modules.batchnorm._BatchNorm, QuaternionBatchNorm)
    return [module for module in model.modules() if isinstance(module, kinds) and module.track_running_stats]


def _restart(norms: list[Any]) -> None:
    """Reset the statistics; then take a plain mean over the next batches."""
    for norm in norms:
        norm.reset_parameters() if isinstance(norm, QuaternionBatchNorm) else norm.reset_running_stats()
        norm.momentum = None
        norm.training = True
