"""Groups of neighbours, as rows that follow one another: no work for a neighbour that only fills a ball up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

ROWS = 2048  # rows that are worked on at a time: their features stay in the cache between one layer and the next


@dataclass(frozen=True, eq=False)
class Groups:
    """The neighbours of P centres: rows start[i] to start[i + 1] are those of centre i, the nearest first.

    Attributes:
        neighbour: (R,) int32, places in the flattened clouds (B·N).
        start: (P + 1,) int64.
        weight: (R,), how often a row counts in statistics.
        count: Σ weight, the number of rows that the padded groups have.
    """

    neighbour: Tensor
    start: Tensor
    weight: Tensor
    count: int

    @property
    def centres(self) -> int:
        """The number P of groups."""
        return len(self.start) - 1

    @property
    def rows(self) -> int:
        """The number R of neighbours that are not padding."""
        return len(self.neighbour)

    def chunks(self) -> Iterator[tuple[int, int, slice]]:
        """Centres from `first` to `last`, and their rows, some thousand rows at a time."""
        starts, first = self.start.numpy(), 0
        while first < self.centres:
            last = int(starts.searchsorted(starts[first] + ROWS, side="right")) - 1
            last = min(max(last, first + 1), self.centres)
            yield first, last, slice(int(starts[first]), int(starts[last]))
            first = last

    def widest(self) -> int:
        """The number of rows of the largest chunk."""
        return max(rows.stop - rows.start for _, _, rows in self.chunks())


def from_index(idx: Tensor, points: int, dtype: torch.dtype) -> Groups:
    """Groups from the indices of a ball query or k-NN, nearest first, padded with the nearest.

    Shapes: idx (B, S, K) → groups of B·S centres
    """
    batch, centres, size = idx.shape
    real = idx != idx[..., :1]
    real[..., 0] = True
    counts = real.sum(-1).flatten()
    clouds = torch.arange(batch).view(-1, 1, 1) * points
    start = torch.zeros(batch * centres + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=start[1:])
    weight = torch.ones(int(start[-1]), dtype=dtype)
    weight[start[:-1]] = (1 + size - counts).to(dtype)
    return Groups((idx + clouds)[real].int(), start, weight, idx.numel())


def of_all(batch: int, points: int, dtype: torch.dtype) -> Groups:
    """One group a cloud, of all its points."""
    rows = batch * points
    start = torch.arange(batch + 1) * points
    return Groups(torch.arange(rows, dtype=torch.int32), start, torch.ones(rows, dtype=dtype), rows)
