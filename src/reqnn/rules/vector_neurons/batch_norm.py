"""Batch-norm on norms (Deng et al., section 3.4): v · BN(‖v‖)/‖v‖, with the ordinary batch-norm of the C norms.

A direction that rounding alone decides must not be blown up: v/‖v‖ is v·‖v‖/(‖v‖² + FADE) here, 1 % off where ‖v‖ = 0.3. Zero
stays zero, with a finite gradient. Rounding still grows, about tenfold a layer at the worst place: short vectors are stretched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from reqnn.errors import NoRuleError
from reqnn.nn.batch_norm import follow_moments
from reqnn.nn.exchange import exchange_class
from reqnn.nn.vector_grouped import VectorGrouped, vector_groups
from reqnn.rules.paper.convolution import refuse_elsewhere
from reqnn.rules.vector_neurons.base import vector_neurons, vectors_of
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import safe_sqrt
from reqnn.tensor.gathered import wrap

FADE = 1e-3  # a squared length: below it a vector's direction fades; norms are about 0.3, and with 1e-2 networks hardly learn


def normalize_norms(x: Q, normalize: Callable[[Tensor], Tensor]) -> Q:
    """v·BN(‖v‖)/‖v‖.

    Shapes: x (B, C) or (B, C, *); `normalize` is the batch-norm of real features of that shape
    """
    vectors = vectors_of(x)
    square = (vectors.float() if vectors.dtype in (torch.bfloat16, torch.float16) else vectors).square().sum(0)
    norm = safe_sqrt(square)
    out = x.same(vectors * (normalize(norm) * (norm / (square + FADE))).to(vectors.dtype))
    out.channel_axis, out.unscaled = 1, vectors
    return out


class NormStatistics(_BatchNorm):
    """The ordinary batch-norm of norms, of any rank. Shapes: (B, C) or (B, C, *) → the same."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected 2D or more, got {input.dim()}D")

    @property
    def uses_batch(self) -> bool:
        """Whether it normalises by the statistics of the batch, not by running ones."""
        return self.training or self.running_mean is None

    def affine_of_sums(self, sums: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """BN(n) = scale·n + shift for a batch whose Σn and Σn² (2, C) over `count` places are known.

        They go into the running statistics as well. Shapes: (C,) float64 each
        """
        mean, square = sums / count
        variance = (square - mean.square()).clamp(min=0)
        if self.training:
            follow_moments(self, mean, variance, count)
        return self._affine(mean, variance)

    def affine_of_running(self) -> tuple[Tensor, Tensor]:
        """The same by the running statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        return self._affine(self.running_mean.double(), self.running_var.double())

    def _affine(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        scale = (variance + self.eps).rsqrt()
        scale = scale if self.weight is None else scale * self.weight
        return scale, -mean * scale if self.bias is None else self.bias - mean * scale


class NormBatchNorm(nn.Module):
    """v·BN(‖v‖)/‖v‖, with gamma, beta and running statistics of the norms.

    Shapes:
        input: quaternions (B, C) or (B, C, *); output: the same

    Attributes:
        norms: the ordinary batch-norm; what trains, synchronises or calibrates batch-norms finds it here.
    """

    def __init__(self, norms: NormStatistics) -> None:
        super().__init__()
        self.norms = norms

    def reset_parameters(self) -> None:
        """As the batch-norm has it in whose place it stands; networks of PyTorch Geometric call it."""
        self.norms.reset_parameters()

    def forward(self, x: Q) -> Q:
        """Give each vector the normalised length."""
        if not isinstance(x, Q):
            raise NoRuleError("a batch-norm on norms is given real features: the layer is used in both parts of the network")
        if x.context.plan is not None:
            x.context.plan.met("Batch-normalization", "batch_norm", "quaternion")
        kept = vector_groups(x, 1) if x.context.gathers and type(self.norms) is NormStatistics else None
        return normalize_norms(x, self.norms) if kept is None else self._on_groups(x, kept.settled())

    def _on_groups(self, x: Q, kept: VectorGrouped) -> Q:
        """Measure the norms now, and put off what follows from them."""
        if self.norms.uses_batch:
            scale, shift = self.norms.affine_of_sums(kept.lengths(), kept.groups.count)
        else:
            scale, shift = self.norms.affine_of_running()
        out = wrap(kept.normed(scale, shift, FADE), x, 1, x.vectors)
        out.unscaled = wrap(kept, x, 1, x.vectors)
        return out


def turn_into_norm_batch_norm(module: Any, channels: int) -> None:
    """Make one of torch's batch-norm modules a `NormBatchNorm`, in place, so that its name and users stay."""
    reference = next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), torch.empty(0))
    norms = NormStatistics(channels, module.eps, module.momentum, module.affine, module.track_running_stats).to(reference)
    if module.affine and module.weight.shape == norms.weight.shape:
        norms.weight, norms.bias = module.weight, module.bias
    exchange_class(module, NormBatchNorm(norms))


@vector_neurons.rule("batch_norm", row="Batch-normalization")
def batch_norm(x: Q, running_mean: Any = None, running_var: Any = None, weight: Any = None, *args: Any, **named: Any) -> Q:
    """The functional form; modules are swapped for `NormBatchNorm` in the dry run."""
    refuse_elsewhere(x, 1)
    plan, held = x.context.plan, running_var if running_var is not None else weight
    if plan is not None and plan.to_batch_norm(held, x.components.shape[2], turn_into_norm_batch_norm):
        return x
    return normalize_norms(x, lambda norm: F.batch_norm(norm, running_mean, running_var, weight, *args, **named))
