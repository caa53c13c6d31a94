"""Each row of the paper's Table 1 as two functions that can be measured: the original operation and the revised one.

All take a tensor (B, N, 3·V): V vectors at each of N points, the first of them its coordinates. A rotation acts on every
vector, a reordering permutes axis 1. Layers run the same torch function on real numbers and on quaternions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn import points
from reqnn.models import grouping
from reqnn.nn import in_principal_frames
from reqnn.rules import get_rules
from reqnn.tensor import QuaternionTensor, from_real
from reqnn.tensor.context import Context

VECTORS = 4  # V, the vectors at each point that layers act on
NEIGHBOURS = 8  # k of k-NN and graph
BALL = (0.6, 12)  # radius and size of a ball: small enough to overflow on 96 points of a surface of size 1
CENTRES = 24
BANDWIDTH = 0.2
DROPPED_BY_SEED = 7


@dataclass(frozen=True)
class Operation:
    """One row.

    Attributes:
        row: its name in Table 1.
        original: the operation as ordinary networks have it.
        revised: the operation by the rules of the paper.
        vectors: whether the result holds vectors on its last axis, which should rotate; else numbers, which should not change.
        per_point: whether axis 1 of the result runs along the points, and should be permuted with them; else it should stay.
        within_field: whether the operation acts within the receptive field of a unit, so that the order of the points does
            not matter (printed –; paper, section 3.4, last paragraph).
    """

    row: str
    original: Callable[[Tensor], Tensor]
    revised: Callable[[Tensor], Tensor]
    vectors: bool = True
    per_point: bool = True
    within_field: bool = False


# -- layers: one torch function, real or quaternion ------------------------------------------------------------------


def _channels_first(layer: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    """A layer on (B, C, N), called on (B, N, C)."""
    return lambda x: _channels_last(layer(x.transpose(1, 2)))


def _on_quaternions(layer: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    """The same layer on quaternions (B, V, N), its result as real coordinates."""

    def run(x: Tensor) -> Tensor:
        q = layer(from_real(x.transpose(1, 2), axis=1))
        assert isinstance(q, QuaternionTensor)
        return _channels_last(q.imaginary().movedim(0, 2).flatten(1, 2))  # (3, B, V, …) → (B, 3·V, …)

    return run


def _channels_last(x: Tensor) -> Tensor:
    return x.movedim(1, -1)


def _weights(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def convolution(x: Any) -> Any:
    """A 1×1 convolution: with a bias on real features, without one on quaternions."""
    if isinstance(x, QuaternionTensor):
        return F.conv1d(x, _weights(5, VECTORS, 1))
    return F.conv1d(x, _weights(15, 3 * VECTORS, 1), bias=_weights(15, seed=2))


def batch_norm(x: Any) -> Any:
    """Batch-normalisation in training mode, with gamma and beta on real features."""
    if isinstance(x, QuaternionTensor):
        return F.batch_norm(x, None, None, training=True)
    return F.batch_norm(x, None, None, _weights(x.shape[1]), _weights(x.shape[1], seed=2), training=True)


def max_pooling(x: Any) -> Any:
    """The maximum over a receptive field, here all points."""
    return x.max(dim=2)[0]


def dropout(x: Any) -> Any:
    """Dropout of pooled features, where networks have it, with one mask for both orientations."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(DROPPED_BY_SEED)
        return F.dropout(x.mean(dim=2), 0.5, training=True)


def _layer(row: str, layer: Callable[[Any], Any], per_point: bool = True, within_field: bool = True) -> Operation:
    original, revised = _channels_first(layer), _on_quaternions(layer)
    return Operation(row, original, revised, vectors=True, per_point=per_point, within_field=within_field)


# -- operations on points --------------------------------------------------------------------------------------------


def _multiplicity(index: Tensor, count: int) -> Tensor:
    """How often each of N points is in each of M groups: (B, M, K) → (B, N, M). All that a symmetric function sees."""
    groups = F.one_hot(index, count).sum(2)
    return groups.transpose(1, 2).double()


def _centres(xyz: Tensor) -> Tensor:
    """Centres of groups that do not depend on the order of the points, (B, M, 3)."""
    return grouping.index_points(xyz, points.farthest_point_sample(xyz, CENTRES))


def _sampling(sample: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: _multiplicity(sample(x[..., :3], CENTRES).unsqueeze(1), x.shape[1])


def _groups(search: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: _multiplicity(search(x[..., :3], _centres(x[..., :3])), x.shape[1])


def weight_net(offsets: Tensor) -> Tensor:
    """An MLP on coordinate differences (…, 3) → weights (…, 6), as PointConv has it."""
    hidden = torch.relu(offsets @ _weights(3, 8) + _weights(8, seed=2))
    return torch.relu(hidden @ _weights(8, 6, seed=3) + _weights(6, seed=4))


def coordinates_weighting(x: Tensor, revised: bool) -> Tensor:
    """Σ_j w(x_j − x_i) f_j over the k nearest, with raw offsets, or with offsets seen from the PCA frame of the cloud."""
    xyz = x[..., :3]
    index = points.knn(xyz, xyz, NEIGHBOURS)
    features = grouping.index_points(x, index).unflatten(-1, (-1, 3))  # (B, N, k, V, 3)
    offsets = grouping.index_points(xyz, index) - xyz.unsqueeze(2)
    if revised:
        context = Context(get_rules("paper"), batch=xyz.shape[0], points=xyz)
        offsets = in_principal_frames(from_real(offsets, axis=-1, context=context))
    return torch.einsum("bnkw,bnkvc->bnwvc", weight_net(offsets), features).flatten(2)


def graph_construction(x: Any) -> Any:
    """Edges [f_j − f_i, f_i] to the k nearest in feature space: (B, C, N) → (B, 2·C, N, k)."""
    return grouping.get_graph_feature(x, NEIGHBOURS)


OPERATIONS: tuple[Operation, ...] = (
    _layer("Convolution", convolution),
    _layer("ReLU", F.relu),
    _layer("Batch-normalization", batch_norm),
    _layer("Max-pooling", max_pooling, per_point=False),
    _layer("Dropout", dropout, per_point=False),
    Operation(
        "Farthest point sampling",
        _sampling(grouping.farthest_point_sample),
        _sampling(points.farthest_point_sample),
        vectors=False,
    ),
    Operation(
        "Grouping (k-NN)",
        _groups(lambda xyz, centres: grouping.knn_point(NEIGHBOURS, xyz, centres)),
        _groups(lambda xyz, centres: points.knn(xyz, centres, NEIGHBOURS)),
        vectors=False,
    ),
    Operation(
        "Grouping (ball query)",
        _groups(lambda xyz, centres: grouping.query_ball_point(*BALL, xyz, centres)),
        _groups(lambda xyz, centres: points.ball_query(xyz, centres, *BALL)),
        vectors=False,
    ),
    Operation(
        "Density estimation",
        lambda x: grouping.compute_density(x[..., :3], BANDWIDTH),
        lambda x: points.density(x[..., :3], BANDWIDTH),
        vectors=False,
    ),
    Operation(
        "3D coordinates weighting",
        lambda x: coordinates_weighting(x, revised=False),
        lambda x: coordinates_weighting(x, revised=True),
    ),
    _layer("Graph construction", graph_construction, within_field=False),
)
"""The rows of Table 1, in its order."""
