"""Logits of many clouds."""

from __future__ import annotations

import torch
from torch import Tensor, nn


@torch.no_grad()
def predict(model: nn.Module, points: Tensor, batch: int = 64) -> Tensor:
    """Logits of a network in eval mode, batch by batch, on the network's device and in its dtype; the result on the CPU.

    Shapes: points (S, N, 3) -> (S, classes) float32, or float64 for a network in float64
    """
    training = model.training
    model.eval()
    like = next(model.parameters())
    try:
        logits = [model(part.to(like.device, like.dtype)).cpu() for part in points.split(batch)]
    finally:
        model.train(training)
    if not logits:
        return torch.empty(0, 0)
    whole = torch.cat(logits)
    return whole if whole.dtype == torch.float64 else whole.float()
