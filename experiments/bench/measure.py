"""Interleaved timing, so that other load on the machine affects all calls alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from experiments.bench.guard import OutOfMemory, limited_memory
from reqnn.errors import ReqnnError

FEWEST = 3  # repeats of what takes long
SHORTEST = 0.01  # seconds: shorter calls are timed several in a row


class Spread(NamedTuple):
    """The middle half of some numbers."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Call:
    """A call to time, by the name of its variant; `context` is entered before the clock starts."""

    name: str
    run: Callable[[], Any]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


@dataclass
class Timing:
    """Seconds of one call, one number per repeat; or why there are none."""

    name: str
    seconds: list[float] = field(default_factory=list)
    skipped: str | None = None
    calls: int = 1  # in a row, between two looks at the clock
    warm_up: float = 0.0  # seconds of the last call that did not count


def interleave(
    calls: Sequence[Call],
    repeats: int,
    max_seconds: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Time all calls in each repeat, starting with another one each time, after a warm-up.

    Calls that take longer than `max_seconds`, run out of memory or refuse their input are skipped. If a round of all takes
    longer than `max_seconds` there are at most `FEWEST` rounds.
    """
    timings = [Timing(call.name) for call in calls]
    round_seconds = 0.0
    for call, timing in zip(calls, timings, strict=True):
        _warm_up(call, timing, max_seconds, clock)
        if timing.skipped is None:
            round_seconds += timing.warm_up
            timing.calls = max(1, min(1000, round(SHORTEST / max(timing.warm_up, 1e-9))))
    if round_seconds > max_seconds:
        repeats = min(repeats, FEWEST)
    going = [pair for pair in zip(calls, timings, strict=True) if pair[1].skipped is None]
    for repeat in range(repeats):
        first = repeat % max(len(going), 1)
        for call, timing in going[first:] + going[:first]:
            timing.seconds.append(_time(call, timing.calls, clock))
    return timings


def _warm_up(call: Call, timing: Timing, max_seconds: float, clock: Callable[[], float]) -> None:
    """Run a call once or twice, so that everything is compiled and loaded, and check whether it can be timed."""
    try:
        with limited_memory():
            timing.warm_up = _time(call, 1, clock)
            if timing.warm_up < 1.0:
                timing.warm_up = _time(call, 1, clock)
    except OutOfMemory as error:
        timing.skipped = f"needs more memory than is free ({error})"
    except ReqnnError as error:
        timing.skipped = str(error).partition(". ")[0]  # what is wrong; the advice is for other commands
    except Exception as error:  # reported; the other measurements continue
        timing.skipped = f"failed: {type(error).__name__}: {error}"
    if timing.warm_up > max_seconds:
        timing.skipped = f"takes {timing.warm_up:.0f} s; --max-seconds is {max_seconds:g}"


def _time(call: Call, calls: int, clock: Callable[[], float]) -> float:
    with call.context():
        start = clock()
        for _ in range(calls):
            call.run()
        return (clock() - start) / calls


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratio(seconds: Sequence[float], other: Sequence[float]) -> Spread | None:
    """Median and quartiles of the ratios within each repeat; None if one of the two was not timed."""
    pairs = list(zip(seconds, other, strict=False))
    return spread([a / b for a, b in pairs]) if pairs else None


def as_record(timing: Timing, base: Timing, **where: Any) -> dict[str, Any]:
    """A timing as plain data; `relative` is its time divided by the base's."""
    relative = ratio(timing.seconds, base.seconds)
    return {
        **where,
        "variant": timing.name,
        "seconds": timing.seconds,
        "relative": None if relative is None else relative._asdict(),
        "skipped": timing.skipped,
    }
