"""Reading inputs: which axis of them holds the vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import InputError
from reqnn.points._coordinates import check_finite, extremes, values_readable
from reqnn.tensor import Context, from_real
from reqnn.tensor.markers import ScalarTensor, companion
from reqnn.tensor.nested import map_leaves

_MOST_CHANNELS = 12  # an axis of more channels than this is taken for points where another one fits


@dataclass(frozen=True)
class Inputs:
    """How the inputs of a network are read.

    Attributes:
        axes: for each positional input the axis of its vectors, None where it is real.
        channels: the number of channels on that axis.
        scalars: how many of them, the last ones, are scalars.
        ranks: the number of axes of each input.
    """

    axes: tuple[int | None, ...]
    channels: tuple[int, ...]
    scalars: int
    ranks: tuple[int, ...]

    @property
    def first(self) -> tuple[int, int]:
        """The position of the first input that holds vectors, and their axis."""
        return next((position, axis) for position, axis in enumerate(self.axes) if axis is not None)

    def quaternions(self, values: dict[int, Any], context: Context) -> dict[int, Any]:
        """Inputs, by position, with their vectors as quaternions; sets the context's cloud and batch."""
        first = values.get(self.first[0])
        if isinstance(first, Tensor) and first.dim() == 2 and not torch.compiler.is_compiling():
            members = members_of(values.values(), first.shape[1 - self.first[1]])
            context.members = members if members is not None and bool(members.any()) else None
        return {position: self._convert(position, values[position], context) for position in sorted(values)}

    def _convert(self, position: int, value: Any, context: Context) -> Any:
        axis = self.check(position, value)
        if axis is None:
            return map_leaves(lambda leaf: companion(leaf, ScalarTensor) if is_numbers(leaf) else leaf, value)
        if context.points is None:
            context.batch = value.shape[0] if value.dim() > 2 else None
            context.points = cloud_of(value, axis)
        return from_real(value, axis, context, self.scalars_of(position))

    def map_clouds(self, function: Callable[[Tensor, int, int], Tensor], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs with each that holds vectors replaced by a function of it, its axis and its number of scalars."""
        axes = [*self.axes, *[None] * (len(args) - len(self.axes))]
        pairs = enumerate(zip(args, axes, strict=True))
        return tuple(x if axis is None else function(x, axis, self.scalars_of(i)) for i, (x, axis) in pairs)

    def with_points(self, args: tuple[Any, ...], function: Callable[[Tensor], Tensor]) -> tuple[Any, ...]:
        """The inputs with the points (*, 1, 3) of the first cloud replaced by a function of them; normals and scalars stay."""
        first, axis = self.first
        moved = map_vectors(function, args[first], axis, args[first].shape[axis] - 3)
        return (*args[:first], moved, *args[first + 1 :])

    def check(self, position: int, value: Any) -> int | None:
        """The axis of an input's vectors, None if it is real; raise `InputError` for what cannot be a cloud of this layout."""
        axis = self.axes[position] if position < len(self.axes) else None
        if axis is not None:
            if not isinstance(value, Tensor):
                raise InputError(f"points are a {type(value).__name__}; a tensor is needed: use torch.as_tensor")
            check_points(value, axis, self.channels[position], self.ranks[position])
        return axis

    def scalars_of(self, position: int) -> int:
        """How many trailing channels of an input are scalars."""
        return self.scalars if position == self.first[0] else 0


def as_arguments(points: Any) -> tuple[Any, ...]:
    """What a user gives as the inputs of a network, one or several, as positional arguments."""
    return tuple(points) if isinstance(points, (tuple, list)) else (points,)


def is_numbers(leaf: Any) -> bool:
    """Whether a leaf is a tensor of floating-point numbers."""
    return isinstance(leaf, Tensor) and leaf.is_floating_point()


def convert(args: tuple[Any, ...], device: torch.device | None, dtype: torch.dtype | None) -> tuple[Any, ...]:
    """Inputs on a device, and those of floating-point numbers in a dtype."""

    def to(leaf: Any) -> Any:
        return leaf.detach().to(device, dtype if is_numbers(leaf) else leaf.dtype) if isinstance(leaf, Tensor) else leaf

    converted: tuple[Any, ...] = map_leaves(to, args)
    return converted


def device_of(net: nn.Module) -> torch.device:
    """Where the parameters and buffers of a network are."""
    return next((t.device for t in (*net.parameters(), *net.buffers())), torch.device("cpu"))


def check_points(x: Tensor, axis: int, channels: int, rank: int) -> None:
    """Raise `InputError` for what cannot be a cloud of this layout, before any work is done."""
    shown = f"the input has shape {tuple(x.shape)}"
    if not x.is_floating_point():
        raise InputError(f"{shown} and dtype {x.dtype}; points must be floating point: call .float() first")
    if x.dim() != rank:
        raise InputError(f"{shown}, {x.dim()} axes; the model was revised for {rank} axes")
    if x.shape[axis] != channels:
        raise InputError(f"{shown}; axis {axis} must hold the {channels} channels that the model was revised for")
    if x.numel() == 0:
        raise InputError(f"{shown}: it is empty; at least one cloud with at least one point is needed")
    check_finite(x, f"{shown} and holds NaN or infinite values; remove those points first")
    if values_readable(x):
        size, kind = max(map(abs, extremes(x))), torch.finfo(x.dtype)
        if size > 0 and not 1e3 * kind.tiny**0.5 < size < 0.1 * kind.max**0.25:
            raise InputError(
                f"{shown} and numbers up to {size:.3g}, whose products are out of the range of {x.dtype}; centre and scale the "
                "cloud to the unit sphere: net.predict(points) does"
            )


def cloud_of(x: Tensor, axis: int) -> Tensor:
    """(B, N, 3) coordinates of an input: its first vector at each point."""
    xyz = x.movedim(axis, -1)[..., :3]
    return xyz.reshape(xyz.shape[0], -1, 3) if xyz.dim() > 2 else xyz.unsqueeze(0)


def members_of(values: Iterable[Any], points: int) -> Tensor | None:
    """Which cloud each point belongs to, if an input says so for points in one list; ends of clouds count, too."""
    for value in values:
        if isinstance(value, Tensor) and value.dtype in (torch.int32, torch.int64) and value.dim() == 1 and len(value):
            if len(value) == points and bool((value >= 0).all()):
                return value.long()
            if int(value[-1]) == points and bool((value.diff() > 0).all()):
                return torch.bucketize(torch.arange(points, device=value.device), value, right=True)
    return None


def rotate_vectors(x: Tensor, axis: int, rotations: Tensor, scalars: int = 0) -> Tensor:
    """R·v for every vector v on an axis of 3·V channels; trailing scalars stay.

    Shapes:
        rotations: (B, 3, 3), one for each entry of axis 0 of x, or (1, 3, 3)
    """
    matrices = rotations.to(x).reshape(-1, *[1] * (x.dim() - 2), 3, 3)
    return map_vectors(lambda vectors: vectors @ matrices.mT, x, axis, scalars)


def map_vectors(function: Callable[[Tensor], Tensor], x: Tensor, axis: int, scalars: int = 0) -> Tensor:
    """The vectors (*, V, 3) on an axis of 3·V channels replaced by a function of them; trailing scalars stay."""
    vectors, rest = x.movedim(axis, -1).split([x.shape[axis] - scalars, scalars], -1)
    made = function(vectors.unflatten(-1, (-1, 3))).flatten(-2)
    return torch.cat([made, rest.to(made)], -1).movedim(-1, axis).contiguous()


def read_inputs(
    points: Any, vector_axis: int | Sequence[int | None] | None = None, scalars: int = 0
) -> tuple[Inputs, tuple[Any, ...]]:
    """How a network's inputs are read, from an example, and the example as positional arguments."""
    args = as_arguments(points)
    if scalars < 0:
        raise InputError(f"scalars is {scalars}; it counts channels")
    if isinstance(vector_axis, int) or vector_axis is None:
        axes = _find_axes(args, vector_axis, scalars)
    else:
        axes = _given_axes(args, vector_axis)
    if all(axis is None for axis in axes):
        raise InputError(
            f"no input has an axis of 3·V coordinates{f' and {scalars} scalars' if scalars else ''}: "
            f"{_shapes(args)}. Give the example as the model takes it, or say which axis it is with vector_axis="
        )
    first = next(i for i, axis in enumerate(axes) if axis is not None)
    for i, axis in enumerate(axes):
        if axis is not None:
            channels = args[i].shape[axis]
            check_points(args[i], axis, channels, args[i].dim())
            vectors = channels - (scalars if i == first else 0)
            if vectors <= 0 or vectors % 3:
                raise InputError(
                    f"axis {axis} of an input of shape {tuple(args[i].shape)} has {channels} channels"
                    + (f", {scalars} of them scalars" if scalars else "")
                    + ": the rest must be 3·V. Declare channels that are no vectors with scalars="
                )
    channels_of = tuple(0 if axis is None else args[i].shape[axis] for i, axis in enumerate(axes))
    ranks = tuple(value.dim() if isinstance(value, Tensor) else 0 for value in args)
    return Inputs(tuple(axes), channels_of, scalars, ranks), args


def _given_axes(args: tuple[Any, ...], vector_axis: Any) -> list[int | None]:
    """One axis for each input, as the user gave them."""
    if not isinstance(vector_axis, (tuple, list)) or len(vector_axis) != len(args):
        raise InputError(
            f"vector_axis is {vector_axis!r}; give an axis, or a tuple with one (or None) for each of {len(args)} inputs"
        )
    return [None if axis is None else _given_axis(value, axis) for value, axis in zip(args, vector_axis, strict=True)]


def _given_axis(value: Any, axis: Any) -> int:
    if not (isinstance(axis, int) and isinstance(value, Tensor) and -value.dim() <= axis < value.dim()):
        raise InputError(f"vector_axis={axis!r} is no axis of an input of shape {_shapes((value,))}")
    return axis % value.dim()


def _find_axes(args: tuple[Any, ...], vector_axis: int | None, scalars: int) -> list[int | None]:
    axes: list[int | None] = []
    clouds = len(args) > 1 and any(isinstance(value, Tensor) and value.dim() > 2 for value in args)  # then (B, C) is no cloud
    for value in args:
        found = None
        if isinstance(value, Tensor) and value.dim() >= (3 if clouds else 2):
            first = all(axis is None for axis in axes)
            if first and not value.is_floating_point() and len(args) == 1:
                raise InputError(f"points have dtype {value.dtype}; floating point is needed: call .float() first")
            if value.is_floating_point():
                given = vector_axis is not None and first
                found = _given_axis(value, vector_axis) if given else _vector_axis(value, scalars if first else 0)
        elif isinstance(value, Tensor) and len(args) == 1:
            raise InputError(f"points have shape {tuple(value.shape)}; (B, N, 3) or (B, 3, N) is needed")
        elif not isinstance(value, Tensor) and len(args) == 1:
            raise InputError(
                f"points are a {type(value).__name__}; a tensor or a tuple of tensors is needed. A model that takes a dict "
                "or a list is wrapped: an nn.Module whose forward takes the tensors and hands them over, "
                "self.model({'points': points})"
            )
        axes.append(found)
    return axes


def _vector_axis(x: Tensor, scalars: int) -> int | None:
    """The axis of 3·V channels; the batch axis does not count."""
    start = 1 if x.dim() > 2 else 0
    wanted = 3 + scalars
    sizes = {axis: x.shape[axis] for axis in range(start, x.dim())}
    exact = [axis for axis, size in sizes.items() if size == wanted]
    fitting = [axis for axis, size in sizes.items() if size > scalars and (size - scalars) % 3 == 0]
    small = [axis for axis in fitting if sizes[axis] - scalars <= _MOST_CHANNELS]
    for candidates in (exact, small if not exact else [], fitting if not exact and not small and scalars == 0 else []):
        if len(candidates) == 1:
            return candidates[0]
        if len(candidates) > 1:
            raise InputError(
                f"an input of shape {tuple(x.shape)} has several axes that could hold vectors ({candidates}); say which with "
                "vector_axis="
            )
    return None


def _shapes(args: tuple[Any, ...]) -> str:
    return ", ".join(str(tuple(a.shape)) if isinstance(a, Tensor) else type(a).__name__ for a in args)
