"""The harness itself, on a clock that only the timed calls move."""

import os
from contextlib import contextmanager

import pytest
import torch

from experiments.bench import guard, measure
from experiments.bench.guard import OutOfMemory, limited_memory
from experiments.bench.measure import FEWEST, SHORTEST, Call, Timing, as_record, interleave, ratio, spread
from reqnn.errors import InputError


class Clock:
    """Time passes only where a call says so."""

    def __init__(self):
        self.now, self.log = 100.0, []

    def __call__(self):
        return self.now

    def task(self, name, *seconds, error=None, **options):
        """A call that takes these many seconds, one number after the other, the last again and again."""
        left = list(seconds)

        def run():
            self.log.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]
            if error:
                raise error

        return Call(name, run, **options)


def test_variants_take_turns_and_the_warm_up_does_not_count():
    clock = Clock()
    calls = [clock.task("a", 9.0, 2.0), clock.task("b", 8.0, 3.0), clock.task("c", 7.0, 4.0)]
    timings = interleave(calls, 3, clock=clock)
    assert clock.log == [*"abc", *"abc", *"bca", *"cab"]
    assert [timing.seconds for timing in timings] == [[2.0] * 3, [3.0] * 3, [4.0] * 3]
    assert [timing.warm_up for timing in timings] == [9.0, 8.0, 7.0]


def test_short_calls_warm_up_twice_and_are_timed_several_in_a_row():
    clock = Clock()
    timings = interleave([clock.task("a", 0.5, SHORTEST / 10)], 2, clock=clock)
    assert timings[0].calls == 10
    assert len(clock.log) == 2 + 2 * 10
    assert timings[0].seconds == pytest.approx([SHORTEST / 10] * 2)


def test_noise_that_hits_all_alike_cancels_in_the_ratio():
    clock = Clock()
    a = clock.task("a", 1.0, 1.0, 10.0, 4.0)
    b = clock.task("b", 2.0, 2.0, 20.0, 8.0)
    first, second = interleave([a, b], 3, clock=clock)
    assert first.seconds == [1.0, 10.0, 4.0]
    assert ratio(second.seconds, first.seconds) == (2.0, 2.0, 2.0)


def test_what_takes_too_long_is_left_out_with_the_reason():
    clock = Clock()
    calls = [clock.task("fine", 1.0), clock.task("slow", 9.0)]
    fine, slow = interleave(calls, 2, max_seconds=5.0, clock=clock)
    assert fine.seconds == [1.0, 1.0]
    assert (slow.seconds, slow.warm_up) == ([], 9.0)
    assert "takes 9 s; --max-seconds is 5" in slow.skipped


def test_long_rounds_are_repeated_less():
    clock = Clock()
    timings = interleave([clock.task("a", 3.0), clock.task("b", 3.0)], 9, max_seconds=5.0, clock=clock)
    assert [len(timing.seconds) for timing in timings] == [FEWEST, FEWEST]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InputError("too few points"), "too few points"),
        (MemoryError(), "more memory than is free"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), "tried to allocate 9"),
        (KeyError("x"), "failed: KeyError"),
    ],
)
def test_what_cannot_run_is_left_out_with_the_reason(error, reason):
    clock = Clock()
    broken, fine = interleave([clock.task("broken", 1.0, error=error), clock.task("fine", 1.0)], 2, clock=clock)
    assert reason in broken.skipped
    assert fine.seconds == [1.0, 1.0]


def test_contexts_hold_around_calls_and_off_the_clock():
    clock, inside = Clock(), []

    @contextmanager
    def context():
        clock.now += 100
        inside.append(True)
        yield
        inside.pop()
        clock.now += 100

    seen = []
    call = Call("a", lambda: seen.append(bool(inside)), context)
    assert interleave([call], 2, clock=clock)[0].seconds == [0.0, 0.0]
    assert all(seen)


def test_spread_and_ratio():
    assert spread([3.0]) == (3.0, 3.0, 3.0)
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, 2.0, 4.0)
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == (3.0, 2.5, 3.5)
    assert ratio([], [1.0]) is None


def test_records_are_relative_to_their_base():
    record = as_record(Timing("a", [1.0, 1.0]), Timing("b", [2.0, 4.0]), what="models")
    assert record["relative"] == {"median": 0.375, "low": 0.3125, "high": 0.4375}
    assert as_record(Timing("a", skipped="why"), Timing("b", [2.0]))["relative"] is None


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="only Linux limits the address space")
def test_an_impossible_allocation_is_reported(monkeypatch):
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(guard, "available_memory", lambda: 1 << 30)
    with pytest.raises(OutOfMemory, match="allocate"), limited_memory():
        torch.empty(1 << 33, dtype=torch.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with pytest.raises(KeyError), limited_memory():
        raise KeyError("others stay what they are")


def test_the_real_clock_moves():
    assert min(interleave([Call("a", lambda: sum(range(1000)))], 2)[0].seconds) > 0
    assert measure.interleave([], 3) == []
