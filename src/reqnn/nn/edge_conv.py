"""The fused edge convolution: exact, and cheaper than the network it comes from.

EdgeConv is max_j ReLU(BN(W·[f_j − f_i, f_i])). On quaternions it needs neither the (B, 2C, N, k) tensor of edge features nor
a layer on it. W = [A, B] is linear and has no bias, so W·[f_j − f_i, f_i] = A·f_j + (B − A)·f_i = y_j + z_i, with y and z
computed once a point. Batch-norm scales a channel by one number and the ReLU's output norm r²/max(r, c) grows strictly with
r, so the longest edge stays the longest: only the winner has to be normalised. The batch statistic is still E‖e‖² over all
edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from reqnn.nn import edge_kernels
from reqnn.nn.batch_norm import QuaternionBatchNorm, scale_quaternions
from reqnn.points import knn
from reqnn.tensor import QuaternionTensor


class LongestEdges(torch.autograd.Function):
    """e_i = y_j* + z_i with j* = argmax_j ‖y_j + z_i‖ in each channel, and the sum of ‖e_ij‖² over all edges.

    Shapes:
        y, z: (B, N, 3, O), idx: (B, N, k) → (B, N, 3, O), (O,)
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
        """One loop over the edges finds the winners and the sums."""
        winner, edge, sums, power = edge_kernels.search_and_sum(y, z, idx)
        ctx.save_for_backward(y, z, idx, winner, sums)
        return edge, power

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None]:
        """∂power/∂e_ij = 2·e_ij; the winner's own gradient goes to its two ends."""
        y, z, idx, winner, sums = ctx.saved_tensors
        of_edge, of_power = gradients
        weight = (2 * of_power).to(y.dtype)
        of_y = edge_kernels.scatter(of_edge, winner) + weight * edge_kernels.spread(y, z, idx)
        return of_y, of_edge + weight * sums, None


class QuaternionEdgeConv(nn.Sequential):
    """max_j ReLU(BN(W·[f_j − f_i, f_i])) over the k nearest neighbours in feature space, with W applied before the gather.

    Shapes:
        input: quaternions (B, C, N); output: quaternions (B, O, N)

    Args:
        convolution: W, a bias-free 1×1 convolution with 2C input channels.
        norm: the batch-norm.
        activation: where the ReLU stands; its rule is applied.
        k: the number of neighbours.
    """

    def __init__(self, convolution: nn.Conv2d, norm: QuaternionBatchNorm, activation: nn.Module, k: int) -> None:
        super().__init__(convolution, norm, activation)
        self.k = k

    def forward(self, x: QuaternionTensor) -> QuaternionTensor:
        """Point-wise maps, one search over the edges, then batch-norm and ReLU on the winners."""
        layers: list[Any] = list(self)
        convolution, norm, activation = layers
        if x.context.plan is not None:
            _note(x.context.plan)
        points = x.components.permute(1, 3, 0, 2).contiguous()  # (B, N, 3, C)
        cloud = points.flatten(2)
        idx = knn(cloud, cloud, self.k)
        neighbour, centre = convolution.weight.flatten(1).chunk(2, dim=1)
        y, z = points @ neighbour.T, points @ (centre - neighbour).T
        if norm.uses_batch:
            edge, sums = LongestEdges.apply(y, z, idx)
            power = norm.track(sums, float(idx.numel())).with_graph()
        elif torch.is_grad_enabled() and (y.requires_grad or z.requires_grad):
            edge, power = LongestEdges.apply(y, z, idx)[0], norm.running()
        else:
            edge, power = edge_kernels.search(y, z, idx)[1], norm.running()
        winners = x.like(edge.permute(2, 0, 3, 1))
        winners.channel_axis = 1
        out: QuaternionTensor = activation(scale_quaternions(winners, power))
        return out


def _note(plan: Any) -> None:
    """Note what a fused edge convolution stands for, row by row of Table 1."""
    for row in ("Graph construction", "Grouping (k-NN)"):
        plan.met(row, "edge_conv", "index")
    for row in ("Convolution", "Batch-normalization", "ReLU", "Max-pooling"):
        plan.met(row, "edge_conv", "quaternion")
