"""Batches of clouds of different sizes.

A network never sees padding: clouds of one size are computed together. No rule, neighbour search, pooling or statistic can then
depend on it, in any network. Beyond a cloud's own points the padded tensor is NaN, which networks and point functions refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from reqnn.errors import InputError, check_least


@dataclass(frozen=True)
class CloudBatch:
    """Clouds of different sizes in one tensor, padded with NaN.

    Shapes:
        points: (B, N, 3) or with further channels, N that of the largest cloud; lengths: (B,) int64, on the CPU
    """

    points: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Tensor:
        """One cloud (n, 3), without padding; a view."""
        return self.points[index, : int(self.lengths[index])]

    @property
    def mask(self) -> Tensor:
        """(B, N): True at points, False at padding."""
        places = torch.arange(self.points.shape[1], device=self.points.device)
        return places < self.lengths.to(self.points.device)[:, None]

    def to(self, *args: Any, **named: Any) -> CloudBatch:
        """On another device or in another dtype, as `Tensor.to`."""
        return CloudBatch(self.points.to(*args, **named), self.lengths)

    def pin_memory(self) -> CloudBatch:
        """For `DataLoader(pin_memory=True)`."""
        return CloudBatch(self.points.pin_memory(), self.lengths)

    def by_size(self, most: int | None = None) -> Iterator[tuple[list[int], Tensor]]:
        """Places in the batch, and the clouds there as (b, n, 3): clouds of one size together, at most `most` of them."""
        for size in self.lengths.unique().tolist():
            places = (self.lengths == size).nonzero()[:, 0]
            for part in places.split(most or len(self)):
                yield part.tolist(), self.points[part.to(self.points.device), :size]

    def map(self, function: Callable[[Tensor], Any], most: int | None = None) -> Any:
        """What a function of (b, n, 3) gives, such as a network in eval mode or an exported file, in the order of the batch.

        With `most=1` clouds are passed one by one: to the bit as alone. Several in a pass may differ in the last bits, as in
        any batch, because matrix products of other sizes add in another order.

        Returns:
            A tensor (B, …) if all results have one shape, else (outputs per point, say) a list of B.
        """
        found: dict[int, Tensor] = {}
        for places, clouds in self.by_size(most):
            answers = function(clouds)
            if not isinstance(answers, Tensor) or answers.shape[:1] != (len(places),):
                got = tuple(answers.shape) if isinstance(answers, Tensor) else type(answers).__name__
                raise InputError(f"the function gives {got} for {len(places)} clouds; a tensor with a row per cloud is needed")
            found |= dict(zip(places, answers, strict=True))
        rows = [found[place] for place in range(len(self))]
        return torch.stack(rows) if len({row.shape for row in rows}) == 1 else rows

    def resample(self, points: int, generator: torch.Generator | None = None) -> Tensor:
        """(B, points, 3) for training: random points of each cloud; all of them, and some repeated, if it has fewer."""
        check_least(points, "points")
        chosen = []
        for cloud in self:
            repeats = -(-points // len(cloud))
            order = torch.cat([torch.randperm(len(cloud), generator=generator) for _ in range(repeats)])[:points]
            chosen.append(cloud[order.to(cloud.device)])
        return torch.stack(chosen)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))


def collate(clouds: Sequence[Any]) -> Any:
    """A `CloudBatch` of clouds (n, 3) of any sizes; of samples (cloud, label, …), as a `DataLoader` has them, a tuple.

    `DataLoader(dataset, batch_size=16, collate_fn=reqnn.collate)`
    """
    if not len(clouds):
        raise InputError("there are no clouds to collate")
    if isinstance(clouds[0], (tuple, list)):
        first, *rest = map(list, zip(*clouds, strict=True))
        return collate(first), *map(default_collate, rest)
    tensors = [torch.as_tensor(cloud) for cloud in clouds]
    for place, cloud in enumerate(tensors):
        shape = tuple(cloud.shape)
        if cloud.dim() != 2 or cloud.shape[1] != tensors[0].shape[-1] or not cloud.is_floating_point():
            raise InputError(
                f"cloud {place} has shape {shape} and {cloud.dtype}; floating-point (n, 3) is needed, as in all others"
            )
        if not len(cloud):
            raise InputError(f"cloud {place} is empty; at least one point is needed")
    lengths = torch.tensor([len(cloud) for cloud in tensors])
    return CloudBatch(torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=torch.nan), lengths)
