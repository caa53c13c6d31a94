"""The proof of an exported file: loaded again, it answers as the network does, and the same for every copy of a cloud.

Copies are rotated, their points are in another order and, if the file centres and scales, moved and scaled. A difference is the
largest entry relative to the spread, the root mean square by which the outputs of two clouds differ.

95 % of the comparisons must be within the tolerance. Not all: moving a cloud in float32 rounds its coordinates, and if that
decides between two points at nearly the same distance, another one is sampled. The network does the same on such a copy, which
is why both counts, and the largest differences, are reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor

from reqnn.quaternion import random_matrix
from reqnn.revision.clouds import Clouds, bumpy_cloud
from reqnn.revision.compare import relative_error, scale_of
from reqnn.revision.inputs import Inputs
from reqnn.revision.self_check import Motion

CLOUDS, COPIES, GROUP = 64, 2, 8
SHARE = 0.95
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}  # for that share of the comparisons
SPREAD = 1e-5  # of outputs, relative to their size: below, there is nothing to compare

Run = Callable[[tuple[Any, ...]], list[Tensor]]
"""Inputs → the floating-point outputs."""


@dataclass(frozen=True)
class Proof:
    """What was measured; differences are relative to `spread`, which is relative to the size of the outputs.

    `parity` is the file against the network on the same clouds and copies, `invariance` the file on copies against the file on
    the clouds themselves: the difference that 95 % do not exceed. `changed` counts the copies above the tolerance.
    """

    clouds: int
    copies: int
    points: list[int]
    batches: list[int]
    spread: float
    tolerance: float
    parity: float
    parity_largest: float
    invariance: float
    invariance_largest: float
    changed: dict[str, int]
    milliseconds_per_cloud: dict[str, float]

    @property
    def failures(self) -> list[str]:
        """What does not hold, in words; nothing if the file may be used."""
        if not self.spread > SPREAD:
            return [f"its outputs hardly differ between clouds (by {self.spread:.0e} of their size): train the network first"]
        found = []
        if not self.parity <= self.tolerance:
            found.append(f"the file differs from the network by {self.parity:.1e} (largest {self.parity_largest:.1e})")
        if not self.invariance <= self.tolerance:
            count = f"{self.changed['file']} of {self.clouds * self.copies}; the network itself {self.changed['network']}"
            found.append(f"rotated copies differ by {self.invariance:.1e} ({count})")
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ok": not self.failures}


@dataclass(frozen=True)
class Sizes:
    """Which clouds are tried.

    Attributes:
        axes: for each input, axis → "batch" or "points".
        batch: the number of clouds in a pass; None if it may vary.
        vary: whether the number of points may vary.
    """

    axes: list[dict[int, str]]
    batch: int | None
    vary: bool

    def groups(self, example: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Examples of one cloud, and how many of them make a pass."""
        varied = [1] * GROUP + [GROUP] * (CLOUDS // GROUP - 1)  # one by one often enough that a fault there shows
        counts = varied if self.batch is None else [self.batch] * -(-CLOUDS // self.batch)
        for i, count in enumerate(counts):
            yield tuple(self._resized(x, axes, i % 2 == 1) for x, axes in zip(example, self.axes, strict=True)), count

    def _resized(self, x: Tensor, axes: dict[int, str], more: bool) -> Tensor:
        for axis, name in axes.items():
            if name == "batch":
                x = x.narrow(axis, 0, 1)
            elif more and self.vary:
                x = x.index_select(axis, torch.arange(x.shape[axis] * 5 // 4 + 1) % x.shape[axis])
        return x

    def run(self, run: Run, clouds: list[tuple[Tensor, ...]]) -> list[list[Tensor]]:
        """The outputs for each cloud, from one pass; one by one if there is no batch axis."""
        if not any("batch" in axes.values() for axes in self.axes):
            return [run(args) for args in clouds]
        columns = zip(self.axes, zip(*clouds, strict=True), strict=True)
        whole = run(tuple(torch.cat(parts) if "batch" in axes.values() else parts[0] for axes, parts in columns))
        return [list(row) for row in zip(*(x.chunk(len(clouds)) for x in whole), strict=True)]


def prove(network: Run, file: Run, inputs: Inputs, example: tuple[Tensor, ...], sizes: Sizes, moves: bool) -> Proof:
    """Run both on clouds like the example, and the file on copies of each, which are moved and scaled too if `moves`."""
    generator = torch.Generator().manual_seed(0)
    groups = [_clouds(one, count, inputs, generator) for one, count in sizes.groups(example)]
    answers = [_timed(sizes, network, group) for group in groups]
    expected = [outputs for answer, _ in answers for outputs in answer]
    spread, scales = _spread(expected)
    parity, seconds = [], []
    changes: dict[str, list[float]] = {"file": [], "network": []}
    for group, (wanted, before) in zip(groups, answers, strict=True):
        found, after = _timed(sizes, file, group)
        seconds.append((before, after))
        parity += [_error(a, b, scales) for a, b in zip(found, wanted, strict=True)]
        for _ in range(COPIES):
            motions = [Motion(random_matrix((), generator, torch.float64), one.random_orders(generator)) for one in group]
            copies = [motion.apply(one.args, one) for motion, one in zip(motions, group, strict=True)]
            copies = [_moved(args, inputs, generator) for args in copies] if moves else copies
            by_file, by_network = sizes.run(file, copies), sizes.run(network, copies)
            parity += [_error(a, b, scales) for a, b in zip(by_file, by_network, strict=True)]
            for name, answer, reference in (("file", by_file, found), ("network", by_network, wanted)):
                for motion, one, a, b in zip(motions, group, answer, reference, strict=True):
                    changes[name].append(max(motion.error(x, y, s, one.sizes) for x, y, s in zip(a, b, scales, strict=True)))
    times = [1000 * median(side) for side in zip(*seconds, strict=True)]
    tolerance = TOLERANCE.get(expected[0][0].dtype, 1e-2)
    return Proof(
        clouds=len(expected),
        copies=COPIES,
        points=sorted({size for group in groups for size in group[0].sizes}),
        batches=sorted({len(group) for group in groups}),
        spread=spread,
        tolerance=tolerance,
        parity=_quantile(parity),
        parity_largest=max(parity),
        invariance=_quantile(changes["file"]),
        invariance_largest=max(changes["file"]),
        changed={name: sum(not error <= tolerance for error in errors) for name, errors in changes.items()},
        milliseconds_per_cloud=dict(zip(("network", "file"), times, strict=True)),
    )


def _clouds(example: tuple[Tensor, ...], count: int, inputs: Inputs, generator: torch.Generator) -> list[Clouds]:
    batch = 1 if example[0].dim() > 2 else None
    made = [bumpy_cloud(example, inputs, generator) for _ in range(count)]
    same = [tuple(x.to(y.dtype) for x, y in zip(args, example, strict=True)) for args in made]
    return [Clouds(args, inputs, batch) for args in same]


def _timed(sizes: Sizes, run: Run, group: list[Clouds]) -> tuple[list[list[Tensor]], float]:
    """The outputs for each cloud, and the seconds for one."""
    start = time.process_time()
    return sizes.run(run, [one.args for one in group]), (time.process_time() - start) / len(group)


def _spread(outputs: list[list[Tensor]]) -> tuple[float, list[float]]:
    """How far outputs of different clouds lie apart, relative to their size (the largest of them), and in their own units."""
    relative, scales = [], []
    for column in zip(*outputs, strict=True):
        size = median(map(scale_of, column))
        apart = median(scale_of(a.double() - b.double()) for a, b in pairwise(column) if a.shape == b.shape)
        relative.append(apart / size)
        scales.append(apart if apart > SPREAD * size else size)  # one that is the same for all clouds
    return max(relative), scales


def _error(found: list[Tensor], expected: list[Tensor], scales: list[float]) -> float:
    return max(relative_error(a, b, scale) for a, b, scale in zip(found, expected, scales, strict=True))


def _quantile(errors: list[float]) -> float:
    """The error that 95 % do not exceed; NaN counts as infinite."""
    return sorted(math.inf if math.isnan(error) else error for error in errors)[math.ceil(SHARE * len(errors)) - 1]


def _moved(args: tuple[Tensor, ...], inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, ...]:
    """The coordinates of the first cloud in another unit, and moved by about their size."""
    unit = 2.0 ** int(torch.randint(-3, 4, (), generator=generator))
    shift = torch.randn(3, generator=generator, dtype=torch.float64)
    return inputs.with_points(args, lambda x: (unit * (x.double() + float(x.abs().max()) * shift)).to(x.dtype))
