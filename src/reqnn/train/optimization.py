"""Optimizer, learning rate and moving average."""

from __future__ import annotations

import math

import torch
from torch import nn

from reqnn.train.config import TrainConfig
from reqnn.train.muon import Muon, hidden_and_rest
from reqnn.train.weights import model_tensors

_RISE, _START = 0.3, 25.0  # one-cycle schedule: share of rising steps, and lr / first learning rate


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


@torch.no_grad()
def moving_average_(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """Update the moving average of weights and statistics; the decay is at most (1 + t)/(10 + t)."""
    weight = 1 - min(decay, (1 + step) / (10 + step))
    values = model_tensors(model)
    for name, mean in model_tensors(average).items():
        if mean.is_floating_point():
            mean.lerp_(values[name].to(mean.dtype), weight)
        else:
            mean.copy_(values[name])
