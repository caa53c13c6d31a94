"""Optimizers, the learning rate, and the moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.train.config import TrainConfig
from reqnn.train.weights import model_tensors

_RISE, _START = 0.3, 25.0  # one-cycle schedule: share of rising steps, and lr / first learning rate

_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial that brings all singular values to about 1 in five iterations."""


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


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al., 2024) on the parameters `hidden`, AdamW on `rest`, as two groups of one optimizer.

    Orthogonalised momentum, for a gradient G flattened to (out, in), momentum μ and learning rate η:

        M ← μ·M + (1 − μ)·G,    U = orthogonalise((1 − μ)·G + μ·M),    W ← (1 − η·decay)·W − η·0.2·√max(out, in)·U

    AdamW is that of `torch.optim.AdamW`. A schedule sets ``lr = rate * group["factor"]``, so both follow one curve.
    """

    def __init__(
        self,
        hidden: Iterable[Tensor],
        rest: Iterable[Tensor],
        lr: float = 0.01,
        adamw_lr: float = 3e-3,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.01,
    ) -> None:
        groups: list[dict[str, Any]] = [
            {"params": list(hidden), "orthogonal": True, "lr": lr, "factor": 1.0, "momentum": momentum},
            {"params": list(rest), "orthogonal": False, "lr": adamw_lr, "factor": adamw_lr / lr, "betas": betas, "eps": 1e-8},
        ]
        super().__init__(groups, {"weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; with a `closure` that computes the loss, the loss."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            update = _muon_ if group["orthogonal"] else _adamw_
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    update(parameter, parameter.grad, self.state[parameter], group)
        return loss


def _muon_(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    momentum = state.setdefault("momentum", torch.zeros_like(parameter)).lerp_(gradient, 1 - group["momentum"])
    matrix = gradient.lerp(momentum, group["momentum"]).flatten(1)
    size = group["lr"] * 0.2 * math.sqrt(max(matrix.shape))
    parameter.add_(orthogonalise(matrix).view_as(parameter), alpha=-size)


def _adamw_(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    first, second = group["betas"]
    state["step"] = state.get("step", 0) + 1
    mean = state.setdefault("mean", torch.zeros_like(parameter)).lerp_(gradient, 1 - first)
    square = state.setdefault("square", torch.zeros_like(parameter)).mul_(second)
    square.addcmul_(gradient, gradient, value=1 - second)
    root = square.sqrt().div_(math.sqrt(1 - second ** state["step"])).add_(group["eps"])
    parameter.addcdiv_(mean, root, value=-group["lr"] / (1 - first ** state["step"]))


def orthogonalise(matrix: Tensor, iterations: int = 5) -> Tensor:
    """The matrix with all singular values moved to between 0.7 and 1.2: approximately U·Vᵀ.

    X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ, from X = G/‖G‖. Shapes: (out, in) → (out, in).
    """
    a, b, c = _NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix  # the smaller product
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def hidden_and_rest(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters for Muon, all with two or more axes but the last layer (the last `nn.Linear`, if any), and the rest."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    linear = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    last = (linear or matrices or [None])[-1]
    hidden = [parameter for parameter in matrices if parameter is not last]
    return hidden, [parameter for parameter in model.parameters() if parameter.ndim < 2 or parameter is last]
