"""Quaternion batch-normalisation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor


def normalize_quaternions(
    x: QuaternionTensor, running: Tensor | None, training: bool, momentum: float, eps: float
) -> QuaternionTensor:
    """f / √(E‖f‖² + ε) with E over the batch and all places (paper, equation 6); in eval mode, the running E‖f‖².

    Shapes:
        x: (B, C) or (B, C, *); running: (C,), updated in place while training
    """
    if training or running is None:
        dims = [d for d in range(x.rank) if d != 1]
        power = x.squared_norm().mean(dims)
        if training and running is not None:
            with torch.no_grad():
                running.lerp_(power.to(running.dtype), momentum)
    else:
        power = running
    return scale_quaternions(x, power, eps)


def scale_quaternions(x: QuaternionTensor, power: Tensor, eps: float) -> QuaternionTensor:
    """f / √(power + ε) for each channel.

    Shapes:
        x: (B, C) or (B, C, *); power: (C,)
    """
    scale = (power + eps).rsqrt().to(x.components.dtype)
    return x.same(x.components * scale.reshape(-1, *[1] * (x.rank - 2)))


class QuaternionBatchNorm(nn.Module):
    """norm(f_v) = f_v / √(E[‖f_v‖²] + ε) for each channel v; no parameters (paper, section 3.3, equation 6).

    Shapes:
        input: quaternions (B, C) or (B, C, *); output: the same

    Args:
        num_features: C, in quaternions.
        momentum: of the running E‖f‖²; None for a cumulative average, as in `torch.nn.BatchNorm1d`.
    """

    running_power: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, track_running_stats: bool = True
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.register_buffer("running_power", torch.ones(num_features))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))
        else:
            self.register_buffer("running_power", None)
            self.register_buffer("num_batches_tracked", None)

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
        return normalize_quaternions(x, self.running_power, self.training, self._count_batch(), self.eps)

    def track(self, power: Tensor) -> Tensor:
        """Take the E‖f‖² of a batch, (C,), into the running one, where it was computed elsewhere; returns it."""
        momentum = self._count_batch()
        if self.training and self.running_power is not None:
            with torch.no_grad():
                self.running_power.lerp_(power.to(self.running_power.dtype), momentum)
        return power

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
    fresh.train(module.training)
    hooks = {name: value for name, value in module.__dict__.items() if "hooks" in name}
    module.__class__ = QuaternionBatchNorm
    module.__dict__ = {**fresh.__dict__, **hooks}
