"""Clouds to measure a network with, and what is done to them: rotated, reordered, taken one by one, exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.revision.inputs import Inputs, as_arguments, convert, device_of, map_vectors, members_of, read_inputs, rotate_vectors
from reqnn.revision.module import RevisedModel

Orders = dict[int, Tensor]
"""Number of points N → (B, N) new orders, one per cloud."""

LEAST_CLOUDS = 4
"""With fewer, batch-norm over (B, C) divides by differences that vanish in some channel, and errors grow."""


@dataclass(frozen=True)
class Clouds:
    """The inputs of a network: (B, N, 3), (B, 3, N) or (N, 3), and its other arguments.

    Attributes:
        args: the positional arguments.
        inputs: which axes hold vectors, and how many channels are scalars.
        batch: B, or None without a batch axis.
        other: clouds of the same shapes, each different from the one in its place.
        made: how many clouds were added.
    """

    args: tuple[Any, ...]
    inputs: Inputs
    batch: int | None
    other: tuple[Any, ...] = ()
    made: int = 0

    @property
    def count(self) -> int:
        """The number of clouds in a pass."""
        return self.batch or 1

    @property
    def sizes(self) -> list[int]:
        """The numbers of points of the inputs that are clouds."""
        found = [x.shape[axis] for i, x in self._vectors() for axis in [self._points_axis(i, x)] if axis is not None]
        return list(dict.fromkeys(found))

    def rotated(self, rotations: Tensor) -> tuple[Any, ...]:
        """Every vector of cloud b rotated by rotations[b], in float64; scalars as they are. rotations: (B, 3, 3)."""
        return self.inputs.map_clouds(
            lambda x, axis, scalars: rotate_vectors(x.double(), axis, rotations.double(), scalars).to(x.dtype), self.args
        )

    def random_orders(self, generator: torch.Generator) -> Orders:
        """A new order of the points for every cloud, drawn independently; in a list of clouds within each of them."""
        orders = {
            size: torch.stack([torch.randperm(size, generator=generator) for _ in range(self.count)]) for size in self.sizes
        }
        for size, order in orders.items() if self.batch is None else ():
            members = members_of(self.args, size)
            if members is not None:
                orders[size] = order[:, members.cpu()[order[0]].argsort(stable=True)]
        return orders

    def reordered(self, orders: Orders) -> tuple[Any, ...]:
        """Every input with a point axis in a new order, the same one for all inputs; indices name the same points as before."""
        out = [self._renamed(x, orders) for x in self.args]
        for i, x in enumerate(self.args):
            axis = self._points_axis(i, x) if isinstance(x, Tensor) else None
            if axis is None:
                continue
            x, order = out[i], orders[x.shape[axis]].to(x.device)
            if self.batch is None:
                out[i] = x.index_select(axis, order[0])
            else:
                out[i] = torch.stack([cloud.index_select(axis - 1, o) for cloud, o in zip(x, order, strict=True)])
        return tuple(out)

    def _renamed(self, x: Any, orders: Orders) -> Any:
        """An input of indices, such as neighbours that a data loader has found, for points in a new order."""
        if not isinstance(x, Tensor) or x.dtype not in (torch.int32, torch.int64) or x.dim() < 2 or not self._batched(x):
            return x
        for size in sorted(orders):
            if orders[size].shape[1] == size and _names_points(x, size):
                places = orders[size].argsort(1).to(x.device)
                return torch.stack([place[cloud.long()] for cloud, place in zip(x, places, strict=True)]).to(x.dtype)
        return x

    def alone(self, index: int) -> tuple[Any, ...]:
        """One cloud as a batch of one."""
        return tuple(x[index : index + 1] if self._batched(x) else x for x in self.args)

    def _vectors(self) -> list[tuple[int, Tensor]]:
        return [(i, self.args[i]) for i, axis in enumerate(self.inputs.axes) if axis is not None]

    def _batched(self, x: Any) -> bool:
        return isinstance(x, Tensor) and self.batch is not None and x.dim() > 0 and x.shape[0] == self.batch

    def _points_axis(self, position: int, x: Tensor) -> int | None:
        """The longest axis beside the vector axis; for an input without vectors, one as long as that of another input."""
        first = 1 if self._batched(x) else 0
        if self.batch is not None and not first:
            return None
        vectors = self.inputs.axes[position] if position < len(self.inputs.axes) else None
        if vectors is not None:
            axes = [axis for axis in range(first, x.dim()) if axis != vectors]
            return max(axes, key=lambda axis: x.shape[axis], default=None)
        sizes = self.sizes
        return next((axis for axis in range(first, x.dim()) if x.shape[axis] in sizes), None)


def read_clouds(
    net: nn.Module,
    points: Any,
    vector_axis: int | Sequence[int | None] | None,
    scalars: int,
    dtype: torch.dtype,
    generator: torch.Generator,
) -> Clouds:
    """Check the inputs, move them to the network's device and to `dtype`, and add clouds if there are too few."""
    if isinstance(net, RevisedModel):
        inputs, args = net.inputs, as_arguments(points)
        if len(args) < len(inputs.axes):
            raise InputError(f"{len(args)} inputs were given; the model was revised for {len(inputs.axes)}")
        for i, x in enumerate(args):
            inputs.check(i, x)
    else:
        inputs, args = read_inputs(points, vector_axis, scalars)
    args = convert(args, device_of(net), dtype)
    first = args[inputs.first[0]]
    batch = first.shape[0] if first.dim() > 2 else None
    if batch is None:
        return Clouds(args, inputs, None, _stretched(args, inputs, generator), made=1)
    made = max(0, LEAST_CLOUDS - batch)
    parts = [args, *(_stretched(args, inputs, generator) for _ in range(-(-made // batch)))]
    count = batch + made
    whole = tuple(
        torch.cat(values)[:count] if isinstance(x, Tensor) and x.shape[:1] == (batch,) else x
        for x, *values in zip(args, *parts, strict=True)
    )
    other = tuple(x.roll(1, 0) if isinstance(x, Tensor) and x.shape[:1] == (count,) else x for x in whole)
    return Clouds(whole, inputs, count, other, made)


def bumpy_cloud(args: tuple[Any, ...], inputs: Inputs, generator: torch.Generator) -> tuple[Any, ...]:
    """A cloud of the shapes and the size of an example, without symmetries or ties: a stretched sphere with bumps.

    All that are made from one example are equally large, as clouds of a data set are once they are normalised. What is no
    vector (labels, colours) is that of the example. In float64.
    """

    def made(vectors: Tensor) -> Tensor:
        places = vectors[..., 0, :].reshape(-1, 3)
        size = min(float((places - center).norm(dim=-1).max()) for center in (0.0, places.mean(0))) or 1.0
        bumps = torch.stack([_bumps(len(places), generator) for _ in range(vectors.shape[-2])], 1)
        return size * bumps.reshape(vectors.shape).to(vectors)

    return inputs.map_clouds(lambda x, axis, scalars: map_vectors(made, x.double(), axis, scalars), args)


def _bumps(count: int, generator: torch.Generator) -> Tensor:
    """(count, 3) points on a bumpy surface, the farthest at distance 1 from the origin."""
    draws = torch.randn(count + 5, 3, generator=generator, dtype=torch.float64)
    directions, (first, second, phase, shift, stretch) = draws[:count], draws[count:]
    directions = directions / directions.norm(dim=-1, keepdim=True)
    bumps = 1 + 0.3 * torch.sin(2 * directions @ first + phase[0]) + 0.2 * torch.sin(3 * directions @ second + phase[1])
    points = directions * bumps[:, None] * (0.4 * torch.tanh(stretch)).exp() + 0.1 * torch.tanh(shift)
    return points / points.norm(dim=-1).max()


def _names_points(x: Tensor, size: int) -> bool:
    """Whether integers are indices of so many points: most of the range occurs, and many different ones."""
    return int(x.min()) >= 0 and 3 * size <= 4 * (int(x.max()) + 1) <= 4 * size and 4 * len(x.unique()) >= size


def dealt_out(rotations: Tensor, clouds: int) -> list[Tensor]:
    """The same rotations in as few passes as possible, the next B of them in each, one per cloud: ⌈R/B⌉ × (B, 3, 3)."""
    passes = -(-len(rotations) // clouds)
    return list(rotations[torch.arange(passes * clouds) % len(rotations)].unflatten(0, (passes, clouds)))


def cube_rotations() -> Tensor:
    """The 24 rotations of a cube, the identity first: (24, 3, 3), exact in every dtype."""
    identity = torch.eye(3, dtype=torch.float64)
    choices = product(permutations(range(3)), product((1, -1), repeat=3))
    signed = [identity.new_tensor(signs).diag() @ identity[list(order)] for order, signs in choices]
    return torch.stack([matrix for matrix in signed if torch.linalg.det(matrix) > 0])


def _stretched(args: tuple[Any, ...], inputs: Inputs, generator: torch.Generator) -> tuple[Any, ...]:
    """Similar clouds: stretched along x, y and z by up to 1.5, with noise of 5 % of their size."""
    stretch = (torch.rand(3, generator=generator, dtype=torch.float64) - 0.5).mul(0.8).exp()

    def similar(x: Tensor, axis: int, scalars: int) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        return map_vectors(lambda vectors: vectors * stretch.to(x), x, axis, scalars) + 0.05 * x.std(correction=0) * noise

    return inputs.map_clouds(similar, args)
