"""The edge convolution of this set, factorised: exact, with no tensor of edge features.

EdgeConv is mean_j ReLU(BN(W·[f_j − f_i, f_i])) here. W = [A, B] is linear, so the edge is y_j + z_i with y = A·f and
z = (B − A)·f computed once a point; so is the direction U·(y_j + z_i) of the ReLU. What is left an edge is element-wise.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from reqnn.nn.loops import loops_run_on
from reqnn.nn.vector_edges import EdgeLengths, MeanOverEdges
from reqnn.points import knn
from reqnn.products import times
from reqnn.rules.factorised import FactorisedEdgeConv
from reqnn.rules.vector_neurons.base import vector_neurons
from reqnn.rules.vector_neurons.batch_norm import FADE, NormBatchNorm, NormStatistics
from reqnn.rules.vector_neurons.relu import EPS, slope_of
from reqnn.tensor import QuaternionTensor as Q


class VectorEdgeConv(FactorisedEdgeConv):
    """mean_j ReLU(BN(W·[f_j − f_i, f_i])) over the k nearest neighbours in feature space."""

    def fused(self, x: Q, convolution: Any, norm: Any, activation: Any) -> Q:
        """Point-wise maps, a loop over the edges for the statistics while training, and one for the rest."""
        points = x.components.permute(1, 3, 0, 2).contiguous()  # (B, N, 3, C)
        cloud = points.flatten(2)
        idx = knn(cloud, cloud, self.k)
        neighbour, centre = convolution.weight.flatten(1).chunk(2, dim=1)
        y, z = times(points, neighbour), times(points, centre - neighbour)
        direction: Any = self.relu_direction_0
        statistics: Any = norm.norms
        scale, shift = (
            statistics.affine_of_sums(EdgeLengths.apply(y, z, idx), idx.numel())
            if statistics.uses_batch
            else statistics.affine_of_running()
        )
        constants = (float(slope_of(x, activation.negative_slope)), FADE, EPS)
        ends = (y, z, times(y, direction), times(z, direction))
        out = x.like(MeanOverEdges.apply(*ends, idx, scale.to(y.dtype), shift.to(y.dtype), constants).permute(2, 0, 3, 1))
        out.channel_axis = 1
        return out

    def serves(self, x: Q, convolution: Any, norm: Any) -> bool:
        """Whether the loops can run: vectors only, a bias-free convolution, statistics of this process."""
        ready = convolution.bias is None and type(convolution) is nn.Conv2d
        ready = ready and x.context.plan is None and x.components.shape[0] == 3 and loops_run_on(x.components)
        return ready and isinstance(norm, NormBatchNorm) and type(norm.norms) is NormStatistics


def factorised(block: Any, x: Q) -> VectorEdgeConv | None:
    """The stand-in for an edge convolution, where its algebra holds: these rules, the mean, a direction for each channel."""
    rules = x.context.rules
    own = rules.agrees_with(vector_neurons, "conv2d", "batch_norm", "leaky_relu", "max")
    own = own and rules.option("pooling") == "mean" and rules.option("direction") == "channel"
    if not own or not rules.option("fused") or x.components.shape[0] != 3 or x.context.plan is None:
        return None
    return VectorEdgeConv(block)
