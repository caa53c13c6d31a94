"""Loss, optimizer and learning rate."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reqnn.train.config import TrainConfig
from reqnn.train.muon import Muon, hidden_and_rest

_RISE, _START = 0.3, 25.0  # one-cycle schedule: share of rising steps, and lr / first learning rate


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross entropy with 1 − ε on the right class and ε/(n − 1) on each other one, as the paper's networks are trained.

    torch's own smoothing puts ε'/n on every class, the right one included; ε' = ε·n/(n − 1) makes the two the same.

    Shapes: logits (B, n), labels (B,) -> scalar
    """
    n = logits.shape[1]
    return F.cross_entropy(logits, labels, label_smoothing=min(1.0, smoothing * n / max(n - 1, 1)))


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer over all parameters of the network."""
    parameters = list(model.parameters())
    decay = config.weight_decay
    if config.optimizer == "muon":
        hidden, rest = hidden_and_rest(model)
        return Muon(hidden, rest, config.lr, config.adamw_lr, betas=(config.momentum, 0.999), weight_decay=decay)
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=config.lr, momentum=config.momentum, weight_decay=decay)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, lr=config.lr, betas=(config.momentum, 0.999), weight_decay=decay)


def learning_rate(config: TrainConfig, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step, counted from 0; a pure function, so there is no state to save."""
    steps = config.epochs * steps_per_epoch
    if config.schedule == "onecycle":
        rise = max(1, int(_RISE * steps))
        if step < rise:
            return _cosine(config.lr / _START, config.lr, step / rise)
        return _cosine(config.lr, config.min_lr, (step - rise) / max(1, steps - rise))
    warmup = int(config.warmup * steps_per_epoch)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.schedule == "cosine":
        return _cosine(config.lr, config.min_lr, (step - warmup) / max(1, steps - warmup))
    if config.schedule == "step":
        return config.lr * config.decay_rate ** math.floor(step / (config.decay_epochs * steps_per_epoch))
    return config.lr


def _cosine(start: float, end: float, progress: float) -> float:
    """From start to end along half a cosine, for progress from 0 to 1."""
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2


def moving_average_(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """Update the moving average of weights and statistics; the decay is at most (1 + t)/(10 + t)."""
    weight = 1 - min(decay, (1 + step) / (10 + step))
    with torch.no_grad():
        pairs = zip(average.state_dict().values(), model.state_dict().values(), strict=True)
        seen: set[int] = set()  # a tensor may have two names
        for mean, value in pairs:
            if mean.data_ptr() in seen:
                continue
            seen.add(mean.data_ptr())
            if mean.is_floating_point():
                mean.lerp_(value.to(mean.dtype), weight)
            else:
                mean.copy_(value)
