"""Growth of the time of point operations and networks with the number of points: t ∝ N^a, a from a fit to log t."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from experiments.bench.kernels import BALL, FPS, IN_BALL, KD_TREE, KNN, NEIGHBOURS, SAMPLED, kd_tree
from experiments.bench.measure import Call, Spread, interleave, spread
from experiments.bench.settings import Settings
from experiments.bench.variants import FUSED, INFERENCE, ORIGINAL, clouds
from reqnn import points as ours

Record = dict[str, Any]
FIRST_RADIUS, FIRST_POINTS = 0.2, 1024  # a ball holds what this one does, whatever N


def fit_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The a of t = c·N^a by least squares on the logarithms."""
    x, y = [math.log(n) for n in sizes], [math.log(t) for t in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def exponent_spread(sizes: Sequence[int], seconds: Sequence[Sequence[float]]) -> Spread:
    """Median and quartiles of the exponents of each repeat; seconds: for each size, one number per repeat."""
    return spread([fit_exponent(sizes, repeat) for repeat in zip(*seconds, strict=False)])


def radius_for(points: int) -> float:
    """A ball on a surface holds N·r² points, up to a factor: r ∝ N^(-1/2) keeps that."""
    return FIRST_RADIUS * math.sqrt(FIRST_POINTS / points)


def measure_growth(settings: Settings, note: Callable[[str], None]) -> list[Record]:
    """Records of each operation, all sizes interleaved: one cloud, one query per point."""
    records: list[Record] = []
    sizes = sorted(settings.growth_points)
    inputs = {n: clouds(1, n, settings.seed)[0] for n in sizes}
    for name, operation in operations(settings).items():
        note(f"growth of {name}, {sizes[0]} to {sizes[-1]} points")
        calls = [Call(str(n), partial(operation, inputs[n])) for n in sizes]
        timings = interleave(calls, settings.repeats, settings.max_seconds)
        done = [(n, timing.seconds) for n, timing in zip(sizes, timings, strict=True) if timing.seconds]
        skipped = next((timing.skipped for timing in timings if timing.skipped), None)
        records.append(growth_record(name, done, skipped))
    return records


def growth_record(
    name: str, done: Sequence[tuple[int, Sequence[float]]], skipped: str | None = None, kind: str = "operation"
) -> Record:
    """The record of one operation or network at several sizes; no exponent from fewer than three."""
    sizes, seconds = [n for n, _ in done], [list(values) for _, values in done]
    exponent = exponent_spread(sizes, seconds)._asdict() if len(sizes) > 2 else None
    reason = skipped or (None if exponent else "fewer than three sizes were timed")
    record: Record = {"what": "growth", "kind": kind, "name": name, "sizes": sizes, "seconds": seconds}
    return record | {"exponent": exponent, "skipped": reason}


def operations(settings: Settings) -> dict[str, Callable[[Tensor], Any]]:
    """What is timed, on xyz (1, N, 3)."""
    return {
        KNN: lambda xyz: ours.knn(xyz, xyz, NEIGHBOURS),
        BALL: lambda xyz: ours.ball_query(xyz, xyz, radius_for(xyz.shape[1]), IN_BALL),
        FPS: lambda xyz: ours.farthest_point_sample(xyz, min(SAMPLED, xyz.shape[1])),
        f"{KNN}, {KD_TREE}": lambda xyz: kd_tree(xyz, NEIGHBOURS, settings.threads),
    }


def growth_of_models(records: Sequence[Record]) -> list[Record]:
    """Exponents of the networks from their own records: inference at the smallest batch."""
    timed = [r for r in records if r["what"] == "models" and r["mode"] == INFERENCE and r["seconds"]]
    found = []
    for model in dict.fromkeys(r["model"] for r in timed):
        batch = min(r["batch"] for r in timed if r["model"] == model)
        for variant in (ORIGINAL, FUSED):
            rows = [r for r in timed if (r["model"], r["batch"], r["variant"]) == (model, batch, variant)]
            if len(rows) > 2:
                rows.sort(key=lambda r: r["points"])
                done = [(r["points"], r["seconds"]) for r in rows]
                found.append(growth_record(f"{model}, {variant}, batch {batch}", done, kind="network"))
    return found
