"""The proof of an exported file: loaded again, it answers as the network does, and the same for every copy of a cloud.

Copies are rotated, their points are in another order and, if the file centres and scales, moved and scaled. A difference is the
largest entry relative to the spread, the root mean square by which the outputs of two clouds differ. Required is:

1. the network, in float64, answers alike for every copy, to 1e-6;
2. the file answers as the network in the same precision on the same input, cloud or copy. Where two points are at the same
   distance to within rounding, either may be sampled: then the file's answer must be one that the network gives for a cloud
   that differs by rounding only;
3. the same graph in float64, if its runtime can run that, does both to 1e-6, without exception.

Every comparison counts. By 1 and 2 an answer of the file changes between copies only if rounding decides; 5 % of them may.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor

from reqnn.quaternion import random_matrix
from reqnn.revision.clouds import Clouds, bumpy_cloud
from reqnn.revision.compare import relative_error, scale_of
from reqnn.revision.inputs import Inputs, convert, is_numbers
from reqnn.revision.self_check import Motion

CLOUDS, COPIES, GROUP = 64, 2, 8
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
SHARE = 0.95  # of copies whose answers rounding may not change
SPREAD = 1e-5  # of outputs, relative to their size: below, there is nothing to compare
NEAR, ROUNDING = 16, 4  # clouds to try that differ by rounding, of this many eps of the largest coordinate

Run = Callable[[tuple[Any, ...]], list[Tensor]]
"""Inputs → the floating-point outputs."""
Answers = list[list[Tensor]]
"""The outputs for each cloud."""


@dataclass(frozen=True)
class Proof:
    """What was measured: the largest differences, relative to `spread`, which is relative to the size of the outputs.

    Attributes:
        parity: the file against the network in its precision, on the same clouds and copies.
        rounding: the network in the file's precision against the network in float64, on the clouds; ties are wider in float32.
        invariance: the file on copies against the file on the clouds; 95 % do not exceed it.
        invariance_largest: the largest of these.
        changed: copies above the tolerance: rounding decides, else the proof fails.
        ties: clouds and copies that the file answers as the network does for a cloud that differs by rounding.
        exact: in float64, "network": on copies against the clouds; "file": both parity and invariance, None if not measured.
    """

    clouds: int
    copies: int
    points: list[int]
    batches: list[int]
    spread: float
    tolerance: float
    parity: float
    rounding: float
    invariance: float
    invariance_largest: float
    changed: int
    ties: int
    exact: dict[str, float | None]
    milliseconds_per_cloud: dict[str, float]

    @property
    def failures(self) -> list[str]:
        """What does not hold, in words; nothing if the file may be used."""
        if not self.spread > SPREAD:
            return [f"its outputs hardly differ between clouds (by {self.spread:.0e} of their size): train the network first"]
        found, strict = [], TOLERANCE[torch.float64]
        network, file = self.exact["network"], self.exact["file"]
        assert network is not None
        if not network <= strict:
            found.append(f"rotated copies differ by {network:.1e} in the network itself, in float64")
        if not self.parity <= self.tolerance:
            own = f"(the network from itself in float64 by {self.rounding:.1e})"
            found.append(f"the file differs from the network by {self.parity:.1e}; rounding does not explain it {own}")
        if file is not None and not file <= strict:
            found.append(f"written in float64, the file differs from the network or between rotated copies by {file:.1e}")
        if self.changed > (1 - SHARE) * self.clouds * self.copies:
            count = f"{self.changed} of {self.clouds * self.copies}"
            found.append(f"rotated copies differ in {count} cases, decided by rounding: export the network in float64")
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

    def run(self, run: Run, clouds: list[tuple[Any, ...]]) -> Answers:
        """The outputs for each cloud, from one pass; one by one if there is no batch axis."""
        if not any("batch" in axes.values() for axes in self.axes):
            return [run(args) for args in clouds]
        columns = zip(self.axes, zip(*clouds, strict=True), strict=True)
        whole = run(tuple(torch.cat(parts) if "batch" in axes.values() else parts[0] for axes, parts in columns))
        return [list(row) for row in zip(*(x.chunk(len(clouds)) for x in whole), strict=True)]


def prove(
    runs: dict[str, Run],
    inputs: Inputs,
    example: tuple[Tensor, ...],
    sizes: Sizes,
    moves: bool,
    step: Callable[[str], object],
) -> Proof:
    """Run all of them on clouds like the example and on copies, which are moved and scaled too if `moves`.

    Args:
        runs: "network" in the file's precision, "exact" in float64; "file", and "twin", the file in float64, if there is one.
        inputs: which axes hold vectors.
        example: inputs in the file's precision.
        sizes: the numbers of clouds and points that are tried.
        moves: whether the file centres and scales.
        step: called with what is done next, in words.
    """
    generator, dtype = torch.Generator().manual_seed(0), example[inputs.first[0]].dtype
    tolerance = TOLERANCE.get(dtype, 1e-2)
    step("checking the file: the network in float64")
    groups = [_clouds(one, count, inputs, generator) for one, count in sizes.groups(example)]
    truths = [sizes.run(runs["exact"], [one.args for one in group]) for group in groups]
    spread, scales = _spread([outputs for truth in truths for outputs in truth])
    found: dict[str, list[float]] = {name: [] for name in ("plain", "parity", "rounding", "twin", *runs)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for place, (group, truth) in enumerate(zip(groups, truths, strict=True)):
        step(f"checking the file: {sum(map(len, groups[:place]))} of {sum(map(len, groups))} clouds")
        before: dict[str, Answers] = {}
        for copy in range(1 + COPIES):
            motions = [Motion(random_matrix((), generator, torch.float64), one.random_orders(generator)) for one in group]
            args = [motion.apply(one.args, one) if copy else one.args for motion, one in zip(motions, group, strict=True)]
            args = [_moved(one, inputs, generator) for one in args] if moves and copy else args
            given = [convert(one, None, dtype) for one in args]
            answers = {} if copy else {"exact": truth}
            for name, run in runs.items():
                if name not in answers:
                    start = time.process_time()
                    answers[name] = sizes.run(run, given if name in ("network", "file") else args)
                    seconds[name].append((time.process_time() - start) / len(group))
            plain = _errors(answers["file"], answers["network"], scales)
            found["plain"] += plain
            found["parity"] += nearest(partial(sizes.run, runs["network"]), answers["file"], given, plain, scales, tolerance)
            found["rounding"] += [] if copy else _errors(answers["network"], truth, scales)
            found["twin"] += _errors(answers["twin"], answers["exact"], scales) if "twin" in answers else []
            before = before or answers
            for name in answers if copy else ():
                rows = zip(motions, group, answers[name], before[name], strict=True)
                found[name] += [max(map(m.error, a, b, scales, [one.sizes] * len(a))) for m, one, a, b in rows]
    return Proof(
        clouds=sum(map(len, groups)),
        copies=COPIES,
        points=sorted({size for group in groups for size in group[0].sizes}),
        batches=sorted({len(group) for group in groups}),
        spread=spread,
        tolerance=tolerance,
        parity=_quantile(found["parity"], 1),
        rounding=_quantile(found["rounding"], 1),
        invariance=_quantile(found["file"], SHARE),
        invariance_largest=_quantile(found["file"], 1),
        changed=sum(not error <= tolerance for error in found["file"]),
        ties=sum(a > tolerance >= b for a, b in zip(found["plain"], found["parity"], strict=True)),
        exact={"network": _quantile(found["exact"], 1), "file": _quantile(found["twin"], 1) if found["twin"] else None},
        milliseconds_per_cloud={name: 1000 * median(seconds[name]) for name in ("network", "file")},
    )


def nearest(
    network: Callable[[list[tuple[Any, ...]]], Answers],
    answers: Answers,
    given: list[tuple[Any, ...]],
    errors: list[float],
    scales: list[float],
    tolerance: float,
) -> list[float]:
    """Per cloud the difference from the network or, if that is above the tolerance, from its nearest answer nearby."""
    generator = torch.Generator().manual_seed(0)

    def moved(x: Any) -> Any:
        if not is_numbers(x):
            return x
        noise = 2 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1
        return (x.double() + ROUNDING * torch.finfo(x.dtype).eps * float(x.abs().max()) * noise).to(x.dtype)

    for _ in range(NEAR if max(errors) > tolerance else 0):
        nearby = network([tuple(map(moved, args)) for args in given])
        errors = list(map(min, errors, _errors(answers, nearby, scales)))
    return errors


def _clouds(example: tuple[Tensor, ...], count: int, inputs: Inputs, generator: torch.Generator) -> list[Clouds]:
    """In float64; the numbers are those of the example's precision."""
    batch = 1 if example[0].dim() > 2 else None
    dtype = example[inputs.first[0]].dtype
    made = [convert(bumpy_cloud(example, inputs, generator), None, dtype) for _ in range(count)]
    return [Clouds(convert(args, None, torch.float64), inputs, batch) for args in made]


def _spread(outputs: Answers) -> tuple[float, list[float]]:
    """How far outputs of different clouds lie apart, relative to their size (the largest of them), and in their own units."""
    relative, scales = [], []
    for column in zip(*outputs, strict=True):
        size = median(map(scale_of, column))
        apart = median(scale_of(a.double() - b.double()) for a, b in pairwise(column) if a.shape == b.shape)
        relative.append(apart / size)
        scales.append(apart if apart > SPREAD * size else size)  # one that is the same for all clouds
    return max(relative), scales


def _errors(found: Answers, expected: Answers, scales: list[float]) -> list[float]:
    return [max(map(relative_error, a, b, scales)) for a, b in zip(found, expected, strict=True)]


def _quantile(errors: list[float], share: float) -> float:
    """The error that this share does not exceed; NaN counts as infinite."""
    return sorted(math.inf if math.isnan(error) else error for error in errors)[math.ceil(share * len(errors)) - 1]


def _moved(args: tuple[Tensor, ...], inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, ...]:
    """The coordinates of the first cloud in another unit, and moved by about their size."""
    unit = 2.0 ** int(torch.randint(-3, 4, (), generator=generator))
    shift = torch.randn(3, generator=generator, dtype=torch.float64)
    return inputs.with_points(args, lambda x: (unit * (x.double() + float(x.abs().max()) * shift)).to(x.dtype))
