"""Batch statistics over all processes, on any device: several processes train as one does on the joint batch.

torch's SyncBatchNorm supports neither CPU tensors nor quaternions.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.nn.batch_norm import QuaternionBatchNorm, follow_moments
from reqnn.nn.exchange import exchange_class
from reqnn.tensor import QuaternionTensor


def sum_over_processes(x: Tensor) -> Tensor:
    """Σ_r x_r over the processes r, differentiable: each x_r adds to the sum of all, so its gradient is the sum of theirs."""
    total: Tensor = _Sum.apply(x)
    return total


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Tensor:
        return _Sum.forward(ctx, gradients[0])


def combine_moments(mean: Tensor, variance: Tensor, count: float) -> tuple[Tensor, Tensor, float]:
    """Mean, biased variance and number of values over all processes, from those of each; differentiable.

    E[(x − μ)²] over all is Σ_r n_r (σ_r² + (μ_r − μ)²) / n: nothing large cancels.

    Shapes: mean, variance (C,) -> (C,), (C,)
    """
    sums = sum_over_processes(torch.cat([mean * count, mean.new_tensor([count])]))
    joint, total = sums[:-1] / sums[-1], float(sums[-1].detach())
    spread = sum_over_processes((variance + (mean - joint).square()) * count) / total
    return joint, spread, total


class SynchronisedBatchNorm(nn.modules.batchnorm._BatchNorm):
    """A real batch-norm with the training statistics of all processes.

    Shapes: (B, C) or (B, C, *) -> the same
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise InputError(f"a batch-norm needs (B, C) or (B, C, *); given {tuple(input.shape)}")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise; in eval mode as torch does. Quaternions are normalised by their rule set."""
        rule = input.context.rules.find("batch_norm_by") if isinstance(input, QuaternionTensor) else None
        if rule is not None:
            normed: Tensor = rule.apply(input, self.forward)
            return normed
        self._check_input_dim(input)
        if not self.training and self.running_mean is not None:
            return super().forward(input)
        x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        dims = [d for d in range(x.dim()) if d != 1]
        variance, mean = torch.var_mean(x, dims, correction=0)
        mean, variance, count = combine_moments(mean, variance, x.numel() / x.shape[1])
        if self.training:
            follow_moments(self, mean, variance, count)
        scale = (variance + self.eps).rsqrt()
        shift = -mean * scale
        if self.weight is not None:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        shape = [-1, *[1] * (x.dim() - 2)]
        return torch.addcmul(shift.reshape(shape), x, scale.reshape(shape)).to(input.dtype)


def synchronise(model: nn.Module) -> None:
    """Make all batch-norm modules of a network, real and quaternion, share their statistics among the processes, in place.

    Modules keep their names, parameters and buffers. Calls of `F.batch_norm` are not affected.
    """
    for module in model.modules():
        if isinstance(module, QuaternionBatchNorm):
            module.reduce = sum_over_processes
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            exchange_class(module, SynchronisedBatchNorm)
