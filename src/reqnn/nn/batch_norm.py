"""Quaternion batch-normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.kernels.power import Power, alone
from reqnn.kernels.rows import to_rows, total_power
from reqnn.nn.deferred import defers, scaled
from reqnn.nn.exchange import exchange_class
from reqnn.nn.grouped import grouped_features
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.gathered import wrap


def normalize_quaternions(
    x: QuaternionTensor,
    running: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    reduce: Callable[[Tensor], Tensor] = alone,
) -> QuaternionTensor:
    """f / √(E‖f‖² + ε) with E over the batch and all places (paper, equation 6); in eval mode, the running E‖f‖².

    Shapes: x (B, C) or (B, C, *); running (C,), updated in place while training
    """
    if not training and running is not None:
        return scaled(x, Power(running, eps))
    power = measure_power(x, eps, reduce)
    if running is not None:
        _follow(running, power, momentum)
    return scaled(x, power)


def _follow(running: Tensor, power: Power, momentum: float) -> None:
    """Take the power of a batch into the running one, in place."""
    with torch.no_grad():
        running.lerp_(power.mean.to(running.dtype), momentum)


def _power_of_sums(sums: Tensor, count: float, eps: float, reduce: Callable[[Tensor], Tensor]) -> Power:
    """E‖f‖² over all processes from the sums (C,) over `count` places of this one."""
    if reduce is not alone:
        shared = reduce(torch.cat([sums, sums.new_tensor([count])]))
        sums, count = shared[:-1], float(shared[-1].detach())
    return Power(sums / count, eps, count, reduce)


def measure_power(x: QuaternionTensor, eps: float, reduce: Callable[[Tensor], Tensor] = alone) -> Power:
    """E‖f‖² of each channel over the batch, all places and all processes. Shapes: x (B, C) or (B, C, *)."""
    if defers(x):
        rows = to_rows(x.components, 1)
        return _power_of_sums(total_power(rows), float(rows.shape[:-2].numel()), eps, reduce)
    if x.components.dtype in (torch.bfloat16, torch.float16):
        x = x.same(x.components.float())  # under autocast, too, a statistic is in float32
    square, dims = x.squared_norm(), [d for d in range(x.rank) if d != 1]
    if reduce is alone:
        return Power(square.mean(dims), eps)
    sums = square.sum(dims)
    return _power_of_sums(sums, square.numel() / square.shape[1], eps, reduce).with_graph()


class QuaternionBatchNorm(nn.Module):
    """norm(f_v) = f_v / √(E[‖f_v‖²] + ε) for each channel v; no parameters (paper, section 3.3, equation 6).

    Shapes: quaternions (B, C) or (B, C, *) → the same

    Args:
        num_features: C, in quaternions.
        momentum: of the running E‖f‖²; None for a cumulative average, as in `torch.nn.BatchNorm1d`.

    Attributes:
        reduce: adds up a tensor over the processes that share a batch, differentiably; set where there are several.
    """

    reduce: Callable[[Tensor], Tensor]
    running_power: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, track_running_stats: bool = True
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.track_running_stats = track_running_stats
        self.reduce = alone
        tracked = track_running_stats
        self.register_buffer("running_power", torch.ones(num_features) if tracked else None)
        self.register_buffer("num_batches_tracked", torch.tensor(0) if tracked else None)

    def reset_parameters(self) -> None:
        """Running statistics start at 1."""
        if self.running_power is not None and self.num_batches_tracked is not None:
            self.running_power.fill_(1)
            self.num_batches_tracked.zero_()

    def forward(self, x: QuaternionTensor) -> QuaternionTensor:
        """Normalise each channel by its root mean squared norm."""
        if not isinstance(x, QuaternionTensor):
            raise NoRuleError("a quaternion batch-norm is given real features: the layer is used in both parts of the network")
        if x.context.plan is not None:
            x.context.plan.met("Batch-normalization", "batch_norm", "quaternion")
        kept = grouped_features(x) if x.context.gathers else None
        if kept is not None and not kept.pending and kept.axis == 1:
            return wrap(kept.normed(self, x.context), x, 1)
        return normalize_quaternions(x, self.running_power, self.training, self._count_batch(), self.eps, self.reduce)

    @property
    def uses_batch(self) -> bool:
        """Whether it divides by the statistics of the batch, not by running ones."""
        return self.training or self.running_power is None

    def power_of(self, sums: Tensor, count: float) -> Power:
        """E‖f‖² from Σ‖f‖² (C,) over `count` places, as a layer on groups has measured it."""
        return _power_of_sums(sums.double(), count, self.eps, self.reduce)

    def follow(self, power: Power) -> None:
        """Take the statistic of a batch into the running one."""
        momentum = self._count_batch()
        if self.training and self.running_power is not None:
            _follow(self.running_power, power, momentum)

    def running(self) -> Power:
        """The running E‖f‖²."""
        assert self.running_power is not None
        return Power(self.running_power, self.eps)

    def _count_batch(self) -> float:
        """The weight of this batch in the running statistics."""
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return self.momentum if self.momentum is not None else 0.0

    def extra_repr(self) -> str:
        """As the other normalisation layers show themselves."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


def turn_into_batch_norm(module: nn.Module, channels: int) -> None:
    """Make one of torch's batch-norm modules a `QuaternionBatchNorm`, in place, so that its name and users stay."""
    reference = next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), torch.empty(0))
    fresh = QuaternionBatchNorm(
        channels,
        eps=module.eps,  # type: ignore[arg-type]
        momentum=module.momentum,  # type: ignore[arg-type]
        track_running_stats=bool(module.track_running_stats),
    ).to(reference)
    exchange_class(module, fresh)


@torch.no_grad()
def follow_moments(norm: Any, mean: Tensor, variance: Tensor, count: float) -> None:
    """Move the running statistics of a real batch-norm, where it has them, towards moments (C,) of `count` values.

    The variance is made unbiased, as torch's is.
    """
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    momentum = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    unbiased = variance * (count / max(count - 1, 1))
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
    norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)
