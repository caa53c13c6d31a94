"""Performance targets of the fused networks and kernels, and the measured values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from experiments.bench.kernels import BALL, FPS, KERNEL, KNN, ORDINARY, REFERENCE
from experiments.bench.limit import PRODUCTS
from experiments.bench.measure import Spread, ratio
from experiments.bench.settings import KERNEL_TARGET_POINTS, TARGET_POINTS
from experiments.bench.variants import FUSED, INFERENCE, ORIGINAL, PLAIN, TRAINING

Record = dict[str, Any]
BATCHES = (4, 16)
GROWTH_FROM, GROWTH_TO = 1024, 32768


class Target(NamedTuple):
    """One target; `value` is None if it was not measured."""

    name: str
    asked: float
    at_least: bool
    value: Spread | None

    @property
    def met(self) -> bool | None:
        """Whether the median meets the target; None if nothing was measured."""
        if self.value is None:
            return None
        return self.value.median >= self.asked if self.at_least else self.value.median <= self.asked

    def to_dict(self) -> Record:
        """Plain data."""
        value = None if self.value is None else self.value._asdict()
        relation = "at least" if self.at_least else "at most"
        return {"name": self.name, "relation": relation, "asked": self.asked, "value": value, "met": self.met}


def targets(records: Sequence[Record]) -> list[Target]:
    """All targets with the values of a run; batch 4 and 16 at 1024 points by default."""
    found: list[Target] = []
    for batch in BATCHES:
        found += _of_dgcnn(records, batch)
    for model in ("pointnet2", "pointconv"):
        for mode in (INFERENCE, TRAINING):
            for batch in BATCHES:
                fused, original = (_seconds(records, model, mode, batch, variant) for variant in (FUSED, ORIGINAL))
                name = f"{model}, {mode}, batch {batch}: time of the fused REQNN / original"
                found.append(Target(name, 1.5, False, ratio(fused, original)))
    return [*found, *_of_rules(records), *_of_kernels(records), *_of_growth(records)]


def _of_dgcnn(records: Sequence[Record], batch: int) -> Iterator[Target]:
    asked = {INFERENCE: (2.5, 15.0), TRAINING: (2.0, 9.0)}
    for mode, (original, plain) in asked.items():
        fused = _seconds(records, "dgcnn", mode, batch, FUSED)
        for variant, number in ((ORIGINAL, original), (PLAIN, plain)):
            value = ratio(_seconds(records, "dgcnn", mode, batch, variant), fused)
            yield Target(f"dgcnn, {mode}, batch {batch}: {variant} / fused REQNN", number, True, value)
    peaks = [
        _one(records, what="memory", model="dgcnn", mode=TRAINING, batch=batch, points=TARGET_POINTS, variant=variant)
        for variant in (FUSED, ORIGINAL)
    ]
    fused_peak, original_peak = ((peak or {}).get("peak_bytes") for peak in peaks)
    value = ratio([fused_peak], [original_peak]) if fused_peak and original_peak else None
    yield Target(f"dgcnn, {TRAINING}, batch {batch}: peak memory of the fused REQNN / original", 1 / 3, False, value)
    limit = [
        (_one(records, what="limit", batch=batch, points=TARGET_POINTS, variant=variant) or {}).get("seconds", [])
        for variant in (FUSED, PRODUCTS)
    ]
    name = f"dgcnn, {INFERENCE}, batch {batch}: time of the fused REQNN / its matrix products alone"
    yield Target(name, 1.5, False, ratio(*limit))


def _of_rules(records: Sequence[Record]) -> Iterator[Target]:
    for batch in BATCHES:
        full, original = (_seconds(records, "dgcnn", TRAINING, batch, variant, "rules") for variant in ("full", ORIGINAL))
        name = f"dgcnn, {TRAINING}, batch {batch}: time by the rules `full` / original"
        yield Target(name, 2.0, False, ratio(full, original))


def _of_kernels(records: Sequence[Record]) -> Iterator[Target]:
    for kernel in (FPS, KNN):
        for variant in (REFERENCE, ORDINARY):
            ways = [
                (_one(records, what="kernels", kernel=kernel, points=KERNEL_TARGET_POINTS, variant=way) or {}).get(
                    "seconds", []
                )
                for way in (variant, KERNEL)
            ]
            described = "plain torch" if variant == REFERENCE else "the ordinary function"
            yield Target(f"{kernel}, {KERNEL_TARGET_POINTS} points: {described} / kernel", 5.0, True, ratio(*ways))


def _of_growth(records: Sequence[Record]) -> Iterator[Target]:
    for name in (KNN, BALL):
        record = _one(records, what="growth", name=name)
        value = None
        if record and record["exponent"] and record["sizes"][0] <= GROWTH_FROM and record["sizes"][-1] >= GROWTH_TO:
            value = Spread(**record["exponent"])
        yield Target(f"{name}: exponent of N from {GROWTH_FROM} to {GROWTH_TO} points", 1.3, False, value)


def _seconds(records: Sequence[Record], model: str, mode: str, batch: int, variant: str, what: str = "models") -> list[float]:
    where = {"what": what, "model": model, "mode": mode, "batch": batch, "points": TARGET_POINTS, "variant": variant}
    record = _one(records, **where)
    return record["seconds"] if record else []


def _one(records: Sequence[Record], **where: Any) -> Record | None:
    """The record with these entries."""
    return next((r for r in records if all(r.get(key) == value for key, value in where.items())), None)
