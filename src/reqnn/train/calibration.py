"""Statistics of batch-norms that belong to the weights as they are.

A running average follows the weights with a delay of some ten steps. While weights move fast, a network in eval mode then
divides by what its features used to be; in a quaternion network, where nothing subtracts a mean, such factors multiply.
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
    """Set the running statistics of all batch-norms, real and quaternion, to their means over some batches; give their number.

    All other layers are in eval mode meanwhile, so that dropout does not enter. Without batches nothing changes.

    Shapes: each batch (B, N, 3)
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
    """The batch-norm modules of a network that keep running statistics."""
    kinds = (nn.modules.batchnorm._BatchNorm, QuaternionBatchNorm)
    return [module for module in model.modules() if isinstance(module, kinds) and module.track_running_stats]


def _restart(norms: list[Any]) -> None:
    """Forget what was, and take a plain mean over the batches to come."""
    for norm in norms:
        norm.reset_parameters() if isinstance(norm, QuaternionBatchNorm) else norm.reset_running_stats()
        norm.momentum = None
        norm.training = True
