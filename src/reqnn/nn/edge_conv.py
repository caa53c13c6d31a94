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

from reqnn.errors import NoRuleError
from reqnn.nn import edge_kernels
from reqnn.nn.batch_norm import QuaternionBatchNorm, scale_quaternions
from reqnn.nn.loops import loops_run_on
from reqnn.points import knn
from reqnn.products import times
from reqnn.tensor import QuaternionTensor

PART = 1 << 20  # numbers of y that are worked on at a time: 4 MB, which stay in the cache


class LongestEdges(torch.autograd.Function):
    """e_i = y_j* + z_i with j* = argmax_j ‖y_j + z_i‖ in each channel, and, if wanted, the sum of ‖e_ij‖² over all edges.

    y and z, larger than what they come from, are computed some clouds at a time and not kept: on the way back, anew.

    Shapes:
        points: (B, N, 3, C), of_neighbour, of_centre: (O, C), idx: (B, N, k) → (B, N, 3, O), (O,)
    """

    @staticmethod
    def forward(
        ctx: Any, points: Tensor, of_neighbour: Tensor, of_centre: Tensor, idx: Tensor, measured: bool
    ) -> tuple[Tensor, Tensor]:
        """Two products, then one loop over the edges finds the winners."""
        ctx.set_materialize_grads(False)
        if not loops_run_on(points):
            winner, edge, power = edge_kernels.search(times(points, of_neighbour), times(points, of_centre), idx)
        else:
            winner = torch.empty(*points.shape[:2], len(of_centre), dtype=torch.int16)
            edge = points.new_empty(*points.shape[:3], len(of_centre))
            power = torch.zeros(len(of_centre), dtype=torch.float64)
            for part in _parts(points, of_centre):
                y, z = times(points[part], of_neighbour), times(points[part], of_centre)
                power += edge_kernels.search(y, z, idx[part], measured, (winner[part], edge[part]))[2]
        ctx.save_for_backward(points, of_neighbour, of_centre, idx, winner)
        ctx.dtype = edge.dtype  # autocast may have changed it, and is not there on the way back
        return edge, power

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        """∂power/∂e_ij = 2·e_ij; the winner's own gradient goes to its two ends."""
        points, of_neighbour, of_centre, idx, winner = ctx.saved_tensors
        points, of_neighbour, of_centre = (x.to(ctx.dtype) for x in (points, of_neighbour, of_centre))
        of_edge, of_power = gradients
        weight = None if of_power is None else (2 * of_power).to(points.dtype)
        of_points = torch.empty_like(points)
        of_weights = torch.zeros_like(of_neighbour), torch.zeros_like(of_centre)
        for part in _parts(points, of_centre):
            rows = points[part].flatten(0, 2)
            y, z = times(points[part], of_neighbour), times(points[part], of_centre)
            given = torch.zeros_like(y) if of_edge is None else of_edge[part]
            ends = edge_kernels.pull(y, z, idx[part], winner[part], given, weight)
            for end, of_weight in zip(ends, of_weights, strict=True):
                of_weight.addmm_(end.flatten(0, 2).T, rows)
            if ctx.needs_input_grad[0]:
                torch.add(times(ends[0], of_neighbour.T), times(ends[1], of_centre.T), out=of_points[part])
        return of_points, *of_weights, None, None


def _parts(points: Tensor, weight: Tensor) -> list[slice]:
    """Some clouds at a time."""
    step = max(1, PART // max(1, points[0, :, :, 0].numel() * len(weight)))
    return [slice(first, first + step) for first in range(0, len(points), step)]


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
        _check_parts(convolution, norm)
        if x.context.plan is not None:
            _note(x.context.plan)
        points = x.components.permute(1, 3, 0, 2).contiguous()  # (B, N, 3, C)
        cloud = points.flatten(2)
        idx = knn(cloud, cloud, self.k)
        neighbour, centre = convolution.weight.flatten(1).chunk(2, dim=1)
        edge, sums = LongestEdges.apply(points, neighbour, centre - neighbour, idx, norm.uses_batch)
        power = norm.track(sums, float(idx.numel())).with_graph() if norm.uses_batch else norm.running()
        winners = x.like(edge.permute(2, 0, 3, 1))
        winners.channel_axis = 1
        out: QuaternionTensor = activation(scale_quaternions(winners, power))
        return out


def _check_parts(convolution: Any, norm: Any) -> None:
    """Parts may have been exchanged since the revision: what the algebra does not hold for is refused, not left out."""
    if getattr(convolution, "bias", None) is not None or not isinstance(norm, QuaternionBatchNorm):
        found = "a convolution with a bias" if isinstance(norm, QuaternionBatchNorm) else f"a {type(norm).__name__}"
        raise NoRuleError(
            f"a part of this edge convolution was exchanged for {found}, which does not turn with the cloud; exchange it in "
            "the original network, and revise that again"
        )


def _note(plan: Any) -> None:
    """Note what a fused edge convolution stands for, row by row of Table 1."""
    for row in ("Graph construction", "Grouping (k-NN)"):
        plan.met(row, "edge_conv", "index")
    for row in ("Convolution", "Batch-normalization", "ReLU", "Max-pooling"):
        plan.met(row, "edge_conv", "quaternion")
