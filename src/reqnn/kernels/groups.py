"""Groups of neighbours, as rows that follow one another: no work for a neighbour that only fills a group up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from reqnn.kernels.run import loops_run_on

ROWS = 1024  # rows that are worked on at a time: their features stay in the cache between one layer and the next


@dataclass(frozen=True, eq=False)
class Groups:
    """The neighbours of P centres: rows start[i] to start[i + 1] are those of centre i.

    Attributes:
        index: (P, K) int64, the row of y that each place reads.
        neighbour: (R,) int32, the same without padding.
        start: (P + 1,) int64.
        weight: (R,), how many places a row counts for.
    """

    index: Tensor
    neighbour: Tensor
    start: Tensor
    weight: Tensor

    @property
    def centres(self) -> int:
        """The number P of groups."""
        return self.index.shape[0]

    @property
    def size(self) -> int:
        """The number K of places of a group."""
        return self.index.shape[1]

    @property
    def rows(self) -> int:
        """The number R of neighbours that are not padding."""
        return self.neighbour.shape[0]

    @property
    def count(self) -> int:
        """P·K, the number of places."""
        return self.index.numel()

    @property
    def padded(self) -> bool:
        """Whether some places share a row."""
        return self.rows != self.count

    @cached_property
    def centre(self) -> Tensor:
        """(R,) int64, the centre of each row."""
        counts = self.start.diff()
        return torch.arange(self.centres, device=counts.device).repeat_interleave(counts, output_size=self.rows)

    @cached_property
    def place(self) -> Tensor:
        """(P, K) int64, the row of each place."""
        if not self.padded:
            return torch.arange(self.count, device=self.index.device).view(self.index.shape)
        real = _not_padding(self.index)
        return self.start[:-1, None] + torch.where(real, real.cumsum(1) - 1, 0)

    def places_of(self, winner: Tensor) -> Tensor:
        """Rows that are counted from the first of their group, (P, C), as places in the group: int64."""
        if not self.padded:
            return winner.long()
        found: Tensor = _not_padding(self.index).nonzero()[:, 1]
        return found[self.start[:-1, None] + winner]

    @cached_property
    def stored(self) -> Groups:
        """The same groups for rows that are stored one by one: row r reads row r."""
        neighbour = torch.arange(self.rows, dtype=torch.int32, device=self.index.device)
        same = Groups(self.index, neighbour, self.start, self.weight)
        same.__dict__["stored"] = same
        return same

    def along(self, place: Tensor, origin: Tensor, axis: int) -> bool:
        """Whether an axis of `place`, a view of origin = 0, …, P·K − 1, runs over the places of each group, in their order."""
        order = place.movedim(axis, -1)
        same = place.device.type == "meta" or order.data_ptr() == origin.data_ptr()
        return same and order.is_contiguous() and order.shape[-1] == self.size and order.numel() == self.count

    @property
    def weighted(self) -> tuple[Tensor, Tensor, Tensor]:
        """neighbour, start and weight, as loops want them."""
        return self.neighbour, self.start, self.weight

    @property
    def whole(self) -> Chunk:
        """All centres."""
        return Chunk(self, 0, self.centres, slice(0, self.rows))

    def chunks(self) -> Iterator[Chunk]:
        """All centres in their order, about a thousand rows at a time."""
        starts, first = self.start.numpy(), 0
        while first < self.centres:
            last = int(starts.searchsorted(starts[first] + ROWS, side="right")) - 1
            last = min(max(last, first + 1), self.centres)
            yield Chunk(self, first, last, slice(int(starts[first]), int(starts[last])))
            first = last


@dataclass(frozen=True, eq=False)
class Chunk:
    """Centres from `first` to `last` and their rows, `part` of all rows."""

    groups: Groups
    first: int
    last: int
    part: slice

    def __len__(self) -> int:
        """The number of rows."""
        return self.part.stop - self.part.start

    def of(self, groups: Groups) -> Chunk:
        """The same rows of other groups with the same numbers of neighbours: stored ones, or gathered ones."""
        return self if groups is self.groups else Chunk(groups, self.first, self.last, self.part)

    @property
    def centres(self) -> slice:
        """Of all centres."""
        return slice(self.first, self.last)

    @property
    def where(self) -> tuple[Any, ...]:
        """neighbour, start, first and last, as loops want them."""
        return self.groups.neighbour, self.groups.start, self.first, self.last

    @property
    def counted(self) -> tuple[Any, ...]:
        """neighbour, start, weight, size, first and last, as loops want them."""
        return *self.groups.weighted, self.groups.size, self.first, self.last


def _not_padding(index: Tensor) -> Tensor:
    """(P, K): the first place, and those that do not repeat its neighbour."""
    real = index != index[:, :1]
    real[:, 0] = True
    return real


def from_index(index: Tensor, like: Tensor) -> Groups:
    """Groups from row numbers (P, K); where loops run, repeats of the first neighbour become its weight."""
    centres, size = index.shape
    if loops_run_on(like):
        real = _not_padding(index)
        counts = real.sum(1)
        if int(counts.sum()) < index.numel():
            start = torch.zeros(centres + 1, dtype=torch.int64)
            torch.cumsum(counts, 0, out=start[1:])
            weight = like.new_ones(int(start[-1]))
            weight[start[:-1]] = (1 + size - counts).to(like.dtype)
            return Groups(index, index[real].int(), start, weight)
    start = torch.arange(centres + 1, device=index.device) * size
    return Groups(index, index.flatten().int(), start, like.new_ones(index.numel()))
