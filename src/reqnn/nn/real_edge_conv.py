"""The ordinary edge convolution, factorised: the same numbers without the (B, 2C, N, k) tensor of edge features.

EdgeConv is max_j σ(BN(W·[f_j − f_i, f_i])). W = [A, B] is linear and has no bias, so W·[f_j − f_i, f_i] = A·f_j + (B − A)·f_i
= y_j + z_i =: e_ij, with y and z computed once a point. Batch-norm maps a channel by e ↦ γ(e − μ)/√(σ² + ε) + β and a
LeakyReLU of slope ≥ 0 never falls, so the winner of a channel is its largest edge where γ > 0 and its smallest where γ < 0;
where γ = 0 all are equal and the first wins, as in `torch.max`. Only the winner is normalised; μ and σ² are still those of all
edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from reqnn.errors import InputError
from reqnn.nn import real_edge_kernels as edge_kernels
from reqnn.points import knn
from reqnn.kernels.products import times


class WinningEdges(torch.autograd.Function):
    """The winning edge of each point and channel.

    Shapes:
        y, z: (B, N, O), idx: (B, N, k), sign: (O,) → (B, N, O)
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, idx: Tensor, sign: Tensor) -> Tensor:
        """One loop over the edges finds the winners."""
        winner, edge = edge_kernels.search(y, z, idx, sign)
        ctx.save_for_backward(idx, winner)
        return edge

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None, None]:
        """The gradient of a winner goes to its two ends."""
        idx, winner = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        return edge_kernels.scatter(gradient, winner, idx), gradient, None, None


class WinningEdgesAndMoments(torch.autograd.Function):
    """The winning edge of each point and channel, and mean and variance (biased) of all M = B·N·k edges.

    Shapes:
        y, z: (B, N, O), idx: (B, N, k), sign: (O,) → (B, N, O), (O,), (O,)
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, idx: Tensor, sign: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One loop over the edges finds the winners and the moments, about a mean from point-wise sums."""
        shift = _mean_edge(y, z, idx)
        winner, edge, sums, total, square = edge_kernels.search_and_sum(y, z, idx, sign, shift)
        off = total / idx.numel()
        mean, variance = shift.double() + off, square / idx.numel() - off.square()
        mean, variance = mean.to(y.dtype), variance.clamp_min(0).to(y.dtype)
        sums -= idx.shape[2] * (mean - shift)  # Σ_j (e_ij − μ)
        ctx.save_for_backward(y, z, idx, winner, sums, mean)
        return edge, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None, None]:
        """∂μ/∂e_ij = 1/M and ∂σ²/∂e_ij = 2(e_ij − μ)/M; the winner's own gradient goes to its two ends."""
        y, z, idx, winner, sums, mean = ctx.saved_tensors
        of_edge, of_mean, of_variance = gradients
        of_edge = of_edge.contiguous()
        slope, level = of_variance * (2 / idx.numel()), of_mean / idx.numel()
        of_y = edge_kernels.spread(of_edge, winner, y, z, idx, mean, slope, level)
        return of_y, of_edge + torch.addcmul(idx.shape[2] * level, sums, slope), None, None


def _mean_edge(y: Tensor, z: Tensor, idx: Tensor) -> Tensor:
    """(Σ_j deg(j)·y_j + k Σ_i z_i) / M, deg the in-degree: the mean edge, to the rounding of these sums. Shape (O,)."""
    clouds, points, k = idx.shape
    degree = torch.zeros(clouds, points, dtype=y.dtype, device=y.device)
    degree = degree.scatter_add(1, idx.flatten(1), torch.ones_like(idx.flatten(1), dtype=y.dtype))
    return (degree.flatten() / k) @ y.flatten(0, 1) / (clouds * points) + z.mean((0, 1))


class FactorisedEdgeConv(nn.Sequential):
    """max_j σ(BN(W·[f_j − f_i, f_i])) over the k nearest neighbours in feature space, with W applied before the gather.

    What `reqnn.models.dgcnn.EdgeConv` computes, with the same parameters and buffers under the same names.

    Shapes:
        (B, C, N) → (B, O, N)

    Args:
        convolution: W, a bias-free 1×1 convolution with 2C input channels.
        norm: the batch-norm.
        activation: σ, a LeakyReLU of slope ≥ 0, or a ReLU.
        k: the number of neighbours.
    """

    def __init__(self, convolution: nn.Conv2d, norm: nn.BatchNorm2d, activation: nn.Module, k: int) -> None:
        never_falls = isinstance(activation, nn.ReLU) or (
            isinstance(activation, nn.LeakyReLU) and activation.negative_slope >= 0
        )
        if not never_falls:
            raise InputError(
                f"the activation is {activation}; max_j σ(e_j) = σ(max_j e_j) needs one that never falls: "
                "a ReLU or a LeakyReLU of slope ≥ 0. Keep the plain EdgeConv for others."
            )
        if convolution.bias is not None or convolution.kernel_size != (1, 1) or convolution.groups != 1:
            raise InputError(f"the convolution is {convolution}; a 1×1 one without bias and groups is needed")
        super().__init__(convolution, norm, activation)
        self.k = k

    @classmethod
    def from_block(cls, block: Any) -> FactorisedEdgeConv:
        """The factorised form of an `EdgeConv`, sharing its parameters and buffers."""
        convolution, norm, activation = block
        return cls(convolution, norm, activation, block.k).train(block.training)

    def forward(self, x: Tensor) -> Tensor:
        """Point-wise maps, one search over the edges, then batch-norm and activation on the winners."""
        layers: list[Any] = list(self)
        convolution, norm, activation = layers
        points = x.transpose(1, 2).contiguous()  # (B, N, C)
        idx = knn(points, points, self.k)
        neighbour, centre = convolution.weight.flatten(1).chunk(2, dim=1)
        y, z = times(points, neighbour), times(points, centre - neighbour)
        sign = torch.ones_like(y[0, 0]) if norm.weight is None else norm.weight.detach().sign().to(y.dtype)
        if norm.training or norm.running_mean is None:
            edge, mean, variance = WinningEdgesAndMoments.apply(y, z, idx, sign)
            _track(norm, mean.detach(), variance.detach(), idx.numel())
        else:
            edge, mean, variance = WinningEdges.apply(y, z, idx, sign), norm.running_mean, norm.running_var
        scale = (variance + norm.eps).rsqrt()
        out = (edge - mean) * scale if norm.weight is None else torch.addcmul(norm.bias, edge - mean, scale * norm.weight)
        result: Tensor = activation(out).transpose(1, 2)
        return result


def _track(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor, edges: int) -> None:
    """Take the moments of a batch (O,) into the running ones, as `torch.nn.BatchNorm2d` does: the variance unbiased."""
    if norm.training and edges == 1:
        raise InputError("one edge has no variance: train with more than one point, neighbour or cloud")
    if not norm.training or norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    momentum = norm.momentum if norm.momentum is not None else 1.0 / float(norm.num_batches_tracked)
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
    norm.running_var.lerp_((variance * (edges / (edges - 1))).to(norm.running_var.dtype), momentum)
