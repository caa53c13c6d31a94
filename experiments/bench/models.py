"""Time of whole networks: original, revised by the generic rules, revised and fused; and revised by each rule set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from experiments.bench.measure import Call, as_record, interleave
from experiments.bench.settings import Settings
from experiments.bench.variants import (
    INFERENCE,
    MODES,
    ORIGINAL,
    RULE_SETS,
    VARIANTS,
    Variant,
    build,
    clouds,
    infer,
    train_step,
)

Record = dict[str, Any]
SLACK = 2.0  # small inputs take longer per point: predictions from them are divided by this


def measure_models(settings: Settings, note: Callable[[str], None]) -> list[Record]:
    """Records of all networks, modes and sizes, the variants of each interleaved."""
    return [
        record
        for model in settings.models
        for record in _measure_all("models", model, VARIANTS, settings.sizes(), settings, note)
    ]


def measure_rules(settings: Settings, note: Callable[[str], None]) -> list[Record]:
    """Records of all networks, original and revised by each rule set, at the target sizes."""
    names = [ORIGINAL, *RULE_SETS]
    return [
        record
        for model in (settings.models[:1] if settings.brief else settings.models)
        for record in _measure_all("rules", model, names, settings.target_sizes(), settings, note)
    ]


def _measure_all(
    what: str, model: str, names: Sequence[str], sizes: list[tuple[int, int]], settings: Settings, note: Callable[[str], None]
) -> Iterator[Record]:
    variants = [build(model, name, settings.seed, width=settings.width) for name in names]
    assert variants[0].name == ORIGINAL, "times are relative to the first"
    for mode in MODES:
        pace: dict[str, float] = {}  # seconds per point, at the largest input so far
        for batch, points in sizes:
            note(f"{what}: {model}, {mode}, {batch} × {points} points")
            where = {"what": what, "model": model, "mode": mode, "batch": batch, "points": points}
            yield from _measure(where, variants, pace, settings)


def _measure(where: Record, variants: list[Variant], pace: dict[str, float], settings: Settings) -> list[Record]:
    mode, batch, points = where["mode"], where["batch"], where["points"]
    size = batch * points
    calls = [
        Call(v.name, step(v, mode, batch, points, settings.seed), v.switched, pace.get(v.name, 0.0) * size / SLACK)
        for v in variants
    ]
    timings = interleave(calls, settings.repeats, settings.max_seconds)
    for timing in timings:
        if timing.warm_up:
            pace[timing.name] = min([*timing.seconds, timing.warm_up]) / size
    return [as_record(timing, timings[0], **where) for timing in timings]


def step(variant: Variant, mode: str, batch: int, points: int, seed: int) -> Callable[[], Any]:
    """The call to time; the clouds are made here, off the clock."""
    xyz, labels = clouds(batch, points, seed)
    if mode == INFERENCE:
        return partial(infer, variant.network, xyz)
    return partial(train_step, variant.network, xyz, labels)
