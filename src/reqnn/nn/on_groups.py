"""Features on groups of neighbours, row by row: what the storages of all rule sets share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from reqnn.kernels.groups import Chunk, Groups
from reqnn.kernels.rows import from_rows
from reqnn.tensor.gathered import Gathered, Summed


@dataclass(frozen=True, eq=False)
class OnGroups(Summed):
    """Rows of features, one for each neighbour of each centre.

    Attributes:
        groups: P centres of K places each.
        place: for every logical place its number among the P·K; every structural operation is the same operation on it.
        origin: 0, …, P·K − 1, of which `place` is a view unless it was copied into another order.
        axis: the logical axis of the channels.
    """

    parts: ClassVar[int] = 3
    """Of a quaternion that are stored."""

    groups: Groups
    place: Tensor
    origin: Tensor
    axis: int

    @property
    def width(self) -> int:
        """The number of channels."""
        raise NotImplementedError

    def new_empty(self, *shape: int) -> Tensor:
        """A tensor with the dtype and device of the rows."""
        raise NotImplementedError

    def values(self) -> Tensor:
        """All rows, (R, parts, C)."""
        raise NotImplementedError

    def outer_sum(self, weights: Tensor) -> Tensor:
        """Σ_j value_j ⊗ w_j over the neighbours, if no padding was removed. Shapes: weights (P, K, W) → (P, parts, C, W)"""
        raise NotImplementedError

    def total(self, axis: int, weights: Tensor | None = None) -> Tensor | None:
        """As a sum of outer products with one number per place."""
        if self.groups.padded or not self.groups_along(axis):
            return None
        like = self.new_empty(0)
        w = like.new_ones(()) if weights is None else weights.to(like.dtype)
        w = w.expand(self.places).movedim(axis, -1).reshape(self.groups.centres, self.groups.size, 1)
        return self.outer_sum(w).squeeze(-1).unflatten(0, [*self.places[:axis], *self.places[axis + 1 :]])

    def walk(self, step: Step) -> Iterator[tuple[Any, Chunk]]:
        """What a step gives for all chunks."""
        return ((step(chunk), chunk) for chunk in self.groups.chunks())

    @property
    def places(self) -> torch.Size:
        """The logical shape without the channels."""
        return self.place.shape

    @cached_property
    def raw(self) -> Tensor:
        """Something with the shape, dtype and device of the components that takes no memory."""
        return self.new_empty(1).expand(self.parts, *self.places[: self.axis], self.width, *self.places[self.axis :])

    def components(self) -> Tensor:
        """The values, (parts, *shape)."""
        rows = self.values()
        if self.groups.padded:
            rows = rows.index_select(0, self.groups.place.reshape(-1))
        return from_rows(rows.index_select(0, self.place.reshape(-1)).view(*self.places, *rows.shape[1:]), self.axis)

    def mapped(self, function: Callable[[Tensor], Tensor], axis: int) -> Self:
        """Apply a structural operation to the places; channels are on `axis` then."""
        return replace(self, place=function(self.place), axis=axis)

    def groups_along(self, axis: int) -> bool:
        """Whether an axis of the places runs over the neighbours of each centre, the centres in their order."""
        return self.groups.along(self.place, self.origin, axis)

    def beside(self, other: Any) -> bool:
        """Whether other features are of the same kind, on the same groups in the same order, and as many."""
        if type(other) is not type(self) or self.groups.index is not other.groups.index or self.axis != other.axis:
            return False
        a, b = self.place, other.place
        return (a.data_ptr(), a.shape, a.stride()) == (b.data_ptr(), b.shape, b.stride()) and self.width == other.width


def placed(form: Gathered, axis: int) -> tuple[Tensor, Tensor]:
    """`place` and `origin` of gathered features whose neighbours are on an axis of the places."""
    shape = form.places
    origin = torch.arange(shape.numel(), device=form.raw.device)
    return origin.view(*shape[:axis], *shape[axis + 1 :], shape[axis]).movedim(-1, axis), origin


class Step:
    """Rows of some features a chunk at a time, without gradients: computed for the first reader, dropped behind the last."""

    def __init__(self, compute: Callable[[Chunk], Any]) -> None:
        self.compute, self.readers, self.left = compute, 0, 0
        self.value: Any = None

    def __call__(self, chunk: Chunk) -> Any:
        """Every reader asks once per chunk."""
        if self.left == 0:
            self.value, self.left = self.compute(chunk), self.readers
        value, self.left = self.value, self.left - 1
        if self.left == 0:
            self.value = None
        return value


class Steps:
    """The steps of one walk through the chunks. Rows that an earlier walk has computed already are stored this time.

    Attributes:
        storing: whether this walk stores rows itself; then no others are stored on the way.
    """

    def __init__(self, storing: bool = False) -> None:
        self.storing, self._steps = storing, dict[Any, Step]()

    def of(self, key: Any, make: Callable[[], Callable[[Chunk], Any]]) -> Step:
        """The step of this name, made if there is none yet, with one more reader."""
        if key not in self._steps:
            self._steps[key] = Step(make())
        self._steps[key].readers += 1
        return self._steps[key]

    def again(self, cell: dict[str, Any]) -> bool:
        """Whether the rows that this cell may hold are computed for the second time."""
        if self.storing:
            return False
        again = "walked" in cell
        cell["walked"] = True
        return again
