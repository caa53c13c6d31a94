"""What a layer may do under a rotation or a new order of the points, and the error against that.

Errors are relative: max |value − expected| / rms(reference). The root mean square, so that a few large entries hide little;
at least √tiny of the dtype (1e-154 in float64), below which norms underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from reqnn.revision.clouds import Orders
from reqnn.revision.inputs import is_numbers
from reqnn.revision.outputs import MATRICES
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.nested import leaves

_MOST_AXES = 3  # of points, in one layer's output
_PIECE = 2**16  # entries that are compared at a time


@dataclass(frozen=True)
class Value:
    """A floating-point output of a layer: plain, or the components (3, *) or (4, *) of quaternions."""

    data: Tensor
    quaternion: bool

    @property
    def hidden(self) -> int:
        """The number of leading axes that the network's code does not see."""
        return int(self.quaternion)


def values_of(tree: Any, copy: bool = False) -> list[Value]:
    """The floating-point tensors in a layer's output; index tensors are left out."""
    found = [leaf for leaf in leaves(tree) if is_numbers(leaf)]
    data = [(x.components if isinstance(x, QuaternionTensor) else x.as_subclass(Tensor)).detach() for x in found]
    pairs = zip(data, found, strict=True)
    return [Value(x.clone() if copy else x, isinstance(leaf, QuaternionTensor)) for x, leaf in pairs]


def scale_of(reference: Tensor) -> float:
    """Root mean square of the finite entries, at least √tiny of the dtype."""
    floor = math.sqrt(torch.finfo(reference.dtype).tiny)
    finite = reference.double()
    if not bool(torch.isfinite(finite).all()):
        finite = finite[torch.isfinite(finite)]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    if largest == 0:
        return floor
    return max(floor, largest * float((finite / largest).square().mean().sqrt()))  # squares of small numbers underflow


def relative_error(value: Tensor, expected: Tensor, scale: float) -> float:
    """max |value − expected| / scale; equal infinities agree, NaN agrees with nothing."""
    if value.shape != expected.shape:
        return math.inf
    if value.numel() == 0:
        return 0.0
    largest = max(_largest_difference(a, b) for a, b in _pieces(value, expected))
    return largest / scale if math.isfinite(largest) else math.inf


def _largest_difference(a: Tensor, b: Tensor) -> float:
    difference = (a.double() - b.double()).abs_()
    largest = float(difference.amax())
    if not math.isfinite(largest):
        largest = float(difference.masked_fill_(a == b, 0.0).max())
    return largest if math.isfinite(largest) else math.inf


def _pieces(value: Tensor, expected: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Both tensors in parts that stay in the cache, along the axis of the largest stride."""
    if value.numel() <= _PIECE:
        yield value, expected
        return
    axis = max((a for a, size in enumerate(value.shape) if size > 1), key=value.stride)
    count = min(value.shape[axis], -(-value.numel() // _PIECE))
    for pair in zip(value.chunk(count, axis), expected.chunk(count, axis), strict=True):
        yield from _pieces(*pair)


def relative_spread(value: Tensor, reference: Tensor, scale: float) -> float:
    """rms(value − reference) / scale: how much the outputs of different clouds differ."""
    if value.shape != reference.shape:
        return math.inf
    return scale_of(value.double() - reference.double()) / scale


Expect = Callable[[Tensor, Any], Tensor]
"""(reference, transformation of the input) → the expected output."""


class Property:
    """A property that a layer may have in one of several ways (unchanged, or permuted along one axis or another).

    All passes must agree on one way: the error is the minimum over the ways of the maximum over the passes.
    """

    def __init__(self, ways: dict[str, Expect], tolerance: float) -> None:
        self.errors = dict.fromkeys(ways, 0.0)
        self._ways, self._tolerance, self._passes = ways, tolerance, 0

    def compare(self, value: Tensor, reference: Tensor, scale: float, done: Any) -> None:
        """Add a pass; once a way holds, ways that do not are dropped."""
        self._passes += 1
        for way in list(self.errors):
            error = relative_error(value, self._ways[way](reference, done), scale)
            self.errors[way] = max(self.errors[way], error)
        if min(self.errors.values()) <= self._tolerance:
            self.errors = {way: error for way, error in self.errors.items() if error <= self._tolerance}

    def fail(self) -> None:
        """The output cannot be compared: another shape, or more calls."""
        self._passes += 1
        self.errors = dict.fromkeys(self.errors, math.inf)

    @property
    def error(self) -> float:
        """NaN if nothing was measured."""
        return min(self.errors.values()) if self._passes else math.nan

    @property
    def way(self) -> str:
        """The way with the smallest error."""
        return min(self.errors, key=lambda way: self.errors[way])


def ways_to_rotate(value: Value, clouds: int, free: bool) -> dict[str, Expect]:
    """Quaternions must rotate with their cloud, real features must not change; `free` ones may rotate on an axis of size 3."""
    ways: dict[str, Expect] = {}
    if not value.quaternion:
        ways["unchanged"] = lambda reference, rotations: reference
    axes = [0] if value.quaternion else [a for a, size in enumerate(value.data.shape) if size == 3 and free]
    for axis in axes:
        for split in _splits(value, clouds):
            if split.axis != axis:
                ways[f"rotated on axis {axis}, {split}"] = _rotator(axis, split)
    last = value.data.dim() - 1
    if free and not value.quaternion and tuple(value.data.shape[-2:]) in MATRICES:
        for split in _splits(value, clouds):
            if split.axis is None or split.axis < last - 1:
                rows, columns = _rotator(last - 1, split, 0), _rotator(last, split, 0)
                ways[f"conjugated, {split}"] = lambda x, r, rows=rows, columns=columns: columns(rows(x, r), r)  # type: ignore[misc]
    return ways


def ways_to_reorder(value: Value, clouds: int, sizes: Sequence[int]) -> dict[str, Expect]:
    """A layer may ignore the order of the points, or follow it on one or more axes (two for a (B, N, N) attention map).

    Along an axis the points may each have copies, or stand before or behind other rows, as the input of a completed cloud.
    """
    ways: dict[str, Expect] = {"unchanged": lambda reference, orders: reference}
    for split in _splits(value, clouds):
        shape = split.shape_of_one(value.data.shape)
        sized = [(axis, n) for n in sizes for axis in range(value.hidden, len(shape)) if n > 1]
        axes = [(axis, n, "") for axis, n in sized if shape[axis] == n]
        axes += [(axis, n, how) for axis, n in sized if shape[axis] % n == 0 and shape[axis] > n for how in ("", "tiled")]
        axes += [(axis, n, how) for axis, n in sized if shape[axis] > n for how in ("first", "last")]
        for count in range(1, min(len(axes), _MOST_AXES) + 1):
            for chosen in combinations(axes[: 2 * _MOST_AXES], count):
                if len({axis for axis, *_ in chosen}) == count:
                    places = " and ".join(f"axis {axis - value.hidden} {how}".rstrip() for axis, _, how in chosen)
                    ways[f"permuted on {places}, {split}"] = _reorderer(chosen, split)
    return ways


def block_of(reference: Tensor, shape: Sequence[int], clouds: int, index: int, hidden: int) -> Tensor:
    """The part of a batch's output that belongs to one cloud, whose own output has `shape`."""
    for axis in range(hidden, min(reference.dim(), len(shape))):
        if reference.shape[axis] == clouds * shape[axis] and clouds > 1:
            reference = reference.narrow(axis, index * shape[axis], shape[axis])
    return reference


@dataclass(frozen=True)
class _Split:
    """How a tensor splits into clouds: along an axis, cloud after cloud, or (no axis) all of it belongs to one cloud."""

    axis: int | None
    cloud: int
    clouds: int

    def shape_of_one(self, shape: Sequence[int]) -> list[int]:
        return [size // self.clouds if axis == self.axis else size for axis, size in enumerate(shape)]

    def map(self, function: Callable[[Tensor, int], Tensor], x: Tensor) -> Tensor:
        if self.axis is None:
            return function(x, self.cloud)
        return torch.cat([function(part, b) for b, part in enumerate(x.chunk(self.clouds, self.axis))], self.axis)

    def __str__(self) -> str:
        return f"cloud {self.cloud}" if self.axis is None else f"clouds on axis {self.axis}"


def _splits(value: Value, clouds: int) -> list[_Split]:
    shape = value.data.shape
    if clouds == 1:
        return [_Split(None, 0, 1)]
    along = [
        axis
        for axis in range(value.hidden, len(shape))
        if shape[axis] == clouds or (axis == value.hidden and shape[axis] and shape[axis] % clouds == 0)
    ]
    return [_Split(axis, 0, clouds) for axis in along] + [_Split(None, b, clouds) for b in range(clouds)]


def _rotator(axis: int, split: _Split, first: int = -3) -> Expect:
    """R on the three entries of an axis that begin with `first`; the others, a real part or homogeneous coordinates, stay."""

    def expect(reference: Tensor, rotations: Tensor) -> Tensor:
        entries = rotations.to(reference)[split.cloud] if split.axis is None else rotations.to(reference)
        if split.axis is not None:
            shape = [1] * reference.dim()
            shape[split.axis] = reference.shape[split.axis]
            del shape[axis]
            entries = entries.repeat_interleave(reference.shape[split.axis] // split.clouds, 0)
            entries = entries.movedim(0, -1).reshape(3, 3, *shape)
        else:
            entries = entries.reshape(3, 3, *[1] * (reference.dim() - 1))
        parts, rotated = reference.movedim(axis, 0), reference.clone()
        # no matrix product: for (3, 3) @ (3, M) threads cost more than the work
        start = first % len(parts)
        for row, target in zip(entries, rotated.movedim(axis, 0)[start : start + 3], strict=True):
            torch.mul(row[0], parts[start], out=target)
            target.addcmul_(row[1], parts[start + 1]).addcmul_(row[2], parts[start + 2])
        return rotated

    return expect


def _reorderer(axes: Sequence[tuple[int, int, str]], split: _Split) -> Expect:
    """Along some axes: each point followed by its copies; "tiled": one copy of the cloud after the other; or by place."""

    def expect(reference: Tensor, orders: Orders) -> Tensor:
        def reorder(part: Tensor, cloud: int) -> Tensor:
            shape = part.shape
            for axis, points, how in axes:
                order, size = orders[points][cloud].to(part.device), part.shape[axis]
                if how in ("first", "last"):
                    start = 0 if how == "first" else size - points
                    rows = torch.arange(size, device=part.device)
                    rows[start : start + points] = order + start
                    part = part.index_select(axis, rows)
                    continue
                tiled = how == "tiled"
                copies = part.unflatten(axis, (-1, points) if tiled else (points, -1))
                part = copies.index_select(axis + tiled, order).flatten(axis, axis + 1)
            return part.reshape(shape)

        return split.map(reorder, reference)

    return expect
