"""The edge convolution of this set, factorised: exact, with nothing wider than a real part stored for each edge.

EdgeConv is max_j ReLU(BN(W·[f_j − f_i, f_i])) here. Every linear map of this set, those whose invariants are taken among them,
is [A, B]·[f_j − f_i, f_i] = A·f_j + (B − A)·f_i, computed once a point. What is left an edge is element-wise, and one narrow
product with the invariants.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reqnn.nn.batch_norm import follow_moments
from reqnn.nn.full_edges import EdgeInvariants, PoolEdges, Pooling
from reqnn.nn.loops import loops_run_on
from reqnn.points import knn
from reqnn.products import times
from reqnn.rules.factorised import FactorisedEdgeConv
from reqnn.rules.full.base import EPS, full, unit_size
from reqnn.tensor import QuaternionTensor as Q


class FullEdgeConv(FactorisedEdgeConv):
    """max_j ReLU(BN(W·[f_j − f_i, f_i])) over the k nearest neighbours in feature space."""

    def fused(self, x: Q, convolution: Any, norm: Any, activation: Any) -> Q:
        """Point-wise maps, the invariants of the edges, their product with U, and two loops for the rest."""
        rows = x.components.permute(1, 3, 0, 2).contiguous()  # (B, N, 3 or 4, C)
        cloud = rows.flatten(2)
        idx = knn(cloud, cloud, self.k)
        imaginary, pure = rows[:, :, -3:].contiguous(), rows.shape[2] == 3
        y, z = _ends(imaginary, convolution.weight if pure else convolution.full_vectors_0)
        a, b = (torch.zeros_like(y[:, :, 0]),) * 2 if pure else _ends(rows[:, :, 0].contiguous(), convolution.weight)
        kinds = 3 if x.context.rules.option("handed") else 2
        maps = convolution.full_maps_0
        found = EdgeInvariants.apply(*_ends(imaginary, maps), idx, maps.shape[0] // kinds)
        t = times(found, convolution.full_invariants_0).contiguous()
        if convolution.bias is not None:
            b = b + convolution.bias
        real, vectors = self._pooled(x, (t, a, b, y, z), idx, norm, activation)
        out = x.like(torch.cat([real.unsqueeze(2), vectors], dim=2).permute(2, 0, 3, 1))
        out.channel_axis = 1
        return out

    def _pooled(self, x: Q, parts: tuple[Tensor, ...], idx: Tensor, norm: Any, activation: Any) -> tuple[Tensor, Tensor]:
        """Both parts over the neighbours: (B, N, O), (B, N, 3, O); the statistics go into the running ones."""
        uses_batch = norm.training or norm.running_mean is None
        running = None if uses_batch else (norm.running_mean, norm.running_var)
        unit = EPS if x.context.rules.option("unit") in ("norm", "both") else 0.0
        ones = (
            (norm.weight, norm.bias)
            if norm.affine
            else (torch.ones_like(parts[0][0, 0, 0]), torch.zeros_like(parts[0][0, 0, 0]))
        )
        pooling = Pooling(float(activation.negative_slope), norm.eps, unit, running)
        real, vectors, mean, variance = PoolEdges.apply(*parts, *ones, idx, pooling)
        if norm.training:
            follow_moments(norm, mean, variance, idx.numel())
        return real, unit_size(x, vectors.movedim(2, 0), 2, "pool").movedim(0, 2)

    def serves(self, x: Q, convolution: Any, norm: Any) -> bool:
        """Whether the loops can run: a convolution that has the maps of this set, statistics of this process."""
        return (
            hasattr(convolution, "full_maps_0")
            and x.context.plan is None
            and loops_run_on(x.components)
            and type(norm) is nn.BatchNorm2d
        )


def _ends(rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A·f and (B − A)·f of a weight [A, B] (O, 2C, 1, 1). Shapes: rows (*, C) → (*, O) twice."""
    near, centre = weight.flatten(1).chunk(2, dim=1)
    return times(rows, near.contiguous()), times(rows, centre - near)


def factorised(block: Any, x: Q) -> FullEdgeConv | None:
    """The stand-in for an edge convolution, where its algebra holds: these rules, and the mean of the imaginary parts."""
    rules = x.context.rules
    own = rules.agrees_with(full, "conv2d", "batch_norm", "leaky_relu", "max") and rules.option("pooling") == "mean"
    if not own or not rules.option("fused") or x.context.plan is None:
        return None
    return FullEdgeConv(block)
