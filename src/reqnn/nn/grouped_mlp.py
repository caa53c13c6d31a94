"""A shared MLP on groups of neighbours, fused: exact, with no tensor of gathered features.

The features of a neighbour j of a centre i are [x_j − x_i, x_j, f_j]. The first layer is linear and has no bias, so it is
applied to points, not to neighbours: W·[x_j − x_i, x_j, f_j] = y_j + z_i. What follows is done by `reqnn.nn.group_layers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.nn import group_layers
from reqnn.nn.batch_norm import QuaternionBatchNorm, scale_quaternions
from reqnn.nn.deferred import Deferred
from reqnn.nn.groups import Groups, from_index, of_all
from reqnn.nn.ordinary import run_ordinary
from reqnn.nn.power import Power
from reqnn.nn.rows import from_rows, serves, to_rows
from reqnn.products import times
from reqnn.tensor import QuaternionTensor


class QuaternionGroupedMLP(nn.Module):
    """Layers W → BN → ReLU on every neighbour of every centre.

    Args:
        original: the ordinary module with `convs` and `bns`, all revised already; it runs where the loops cannot.
    """

    def __init__(self, original: Any) -> None:
        super().__init__()
        self.convs, self.bns, self.absolute_xyz = original.convs, original.bns, original.absolute_xyz
        self._original = [original]  # in a list: its parameters are registered once, as those of this module

    def generic(self, *args: Any) -> Any:
        """The ordinary code under the generic rules."""
        return run_ordinary(self._original[0], self, *args)

    def serves(self, xyz: QuaternionTensor) -> bool:
        """Whether the loops can run on this cloud, now."""
        return xyz.context.plan is None and serves(xyz.components) and xyz.context.rules.option("c") != "mean"

    def rows(
        self, xyz: QuaternionTensor, points: QuaternionTensor | None, centres: QuaternionTensor | None, idx: Tensor | None
    ) -> tuple[Tensor, Tensor, Groups]:
        """y (B·N, 3, C) and z (P, 3, C), the first layer before the gather, and the groups."""
        batch, size = xyz.components.shape[1:3]
        weight: Tensor = self.convs[0].weight.flatten(1)
        relative = weight[:, :1]
        own = relative + weight[:, 1:2] if self.absolute_xyz else relative
        y = _map(xyz, own)
        if points is not None:
            y = y + _map(points, weight[:, 2 if self.absolute_xyz else 1 :])
        groups = of_all(batch, size, y.dtype) if idx is None else from_index(idx, size, y.dtype)
        z = y.new_zeros(groups.centres, 3, y.shape[2]) if centres is None else _map(centres, -relative)
        return y, z, groups

    def hidden(self, y: Tensor, z: Tensor, groups: Groups, c: float, last: int) -> tuple[Tensor, Power]:
        """The rows (R, 3, C) after the convolution `last` ≥ 1, and their power; nothing but these is kept."""
        norms: Sequence[Any] = list(self.bns)
        weights = [conv.weight.flatten(1) for conv in self.convs]
        power = _power(norms[0], lambda: group_layers.edge_power(y, z, groups), groups)
        x = group_layers.edge_linear(y, z, weights[1], power, c, groups)
        for layer in range(1, last + 1):
            rows = x
            power = _power(norms[layer], lambda rows=rows: group_layers.row_power(rows, groups), groups)
            if layer < last:
                x = group_layers.row_linear(x, weights[layer + 1], power, c, groups)
        return x, power


class QuaternionPooledMLP(QuaternionGroupedMLP):
    """The longest of MLP(f_j) over the neighbours j of each centre, in each channel: set abstraction (PointNet++).

    Shapes:
        xyz: (B, N, 3), points: (B, N, D) or None, centres: (B, S, 3) or None, idx: (B, S, K) or None → (B, C, S)
    """

    def forward(
        self, xyz: QuaternionTensor, points: QuaternionTensor | None, centres: QuaternionTensor | None, idx: Tensor | None
    ) -> QuaternionTensor:
        """The last convolution goes to the winners only; batch-norm and ReLU act on them, not on all neighbours."""
        if not self.serves(xyz):
            out: QuaternionTensor = self.generic(xyz, points, centres, idx)
            return out
        c = float(xyz.context.rules.option("c"))
        y, z, groups = self.rows(xyz, points, centres, idx)
        x, power = self.hidden(y, z, groups, c, len(self.convs) - 2)
        norm: Any = self.bns[-1]
        weight: Tensor = self.convs[-1].weight.flatten(1)
        longest, sums = group_layers.longest_linear(x, weight, power, c, groups)
        power = norm.track(sums, groups.count).with_graph() if norm.uses_batch else norm.running()
        winners = xyz.like(from_rows(longest.unflatten(0, (xyz.components.shape[1], -1)), 1))
        winners.channel_axis = 1
        normed = scale_quaternions(winners, power)
        assert isinstance(normed.deferred, Deferred)
        return normed.defer(normed.deferred.with_relu(c))


class QuaternionWeightedMLP(QuaternionGroupedMLP):
    """Σ_j MLP(f_j) ⊗ w_j over the neighbours j of each centre: PointConv.

    Shapes:
        xyz, points, centres, idx as in `QuaternionPooledMLP`, w: real (B, W, K, S) → (B, S, C, W)
    """

    def forward(
        self,
        xyz: QuaternionTensor,
        points: QuaternionTensor | None,
        centres: QuaternionTensor | None,
        idx: Tensor | None,
        w: Tensor,
    ) -> QuaternionTensor:
        """Every neighbour has a weight of its own, so the last layer acts on all of them; none is stored after its ReLU."""
        groups = None
        if self.serves(xyz):
            y, z, groups = self.rows(xyz, points, centres, idx)
        if groups is None or groups.rows != groups.count:  # a k-NN never repeats a neighbour; a ball query may
            generic: QuaternionTensor = self.generic(xyz, points, centres, idx, w)
            return generic
        c = float(xyz.context.rules.option("c"))
        x, power = self.hidden(y, z, groups, c, len(self.convs) - 1)
        weights = w.permute(0, 3, 2, 1).reshape(groups.rows, -1)
        out = group_layers.weighted_sum(x, weights.contiguous(), power, c, groups)
        return xyz.like(out.unflatten(0, (xyz.components.shape[1], -1)).movedim(2, 0))


def _map(x: QuaternionTensor, weight: Tensor) -> Tensor:
    """W·f at every point, as rows: quaternions (B, N, D), weight (C, D) → (B·N, 3, C)."""
    return times(to_rows(x.components, 2), weight).flatten(0, 1)


def _power(norm: QuaternionBatchNorm, measure: Any, groups: Groups) -> Power:
    """The statistic that a batch-norm divides by, measured on all rows while it trains."""
    if not norm.uses_batch:
        return norm.running()
    with torch.no_grad():
        return norm.track(measure(), groups.count)
