"""Batched prediction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@torch.no_grad()
def predict(model: nn.Module, points: Tensor, batch: int = 64) -> Tensor:
    """Outputs in eval mode, batch by batch, on the network's device and in its dtype; the result on the CPU.

    Shapes: points (S, N, 3) -> (S, classes) float32, or float64 for a network in float64
    """
    like = next(model.parameters())
    with evaluating(model):
        logits = [model(part.to(like.device, like.dtype)).cpu() for part in points.split(batch)]
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
