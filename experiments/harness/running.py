"""Run the trials without a result; a stopped one is resumed.

Any number of processes may do this on the same two folders: each trial is locked by one.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.harness.accuracy import load_test_set, rotation_test, run_facts
from experiments.harness.results import SEED, check_run, read_result, write_result
from experiments.harness.trial import Trial, in_order, run_folder, run_settings, waits
from reqnn.commands.base import BAD_INPUT, OK
from reqnn.errors import ReqnnError, Stopped
from reqnn.train.evaluation import evaluate
from reqnn.train.loop import fit
from reqnn.train.processes import locked
from reqnn.train.run import load_run


@dataclass
class Outcome:
    """The outcome of a pass over the trials.

    Attributes:
        done: trials measured now.
        elsewhere: trials that another process runs: key → who.
        failed: key → why.
        out_of_time: whether the time ran out.
    """

    done: list[str] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False

    def report(self) -> int:
        """Print what is left, and why; return the exit code."""
        for key, holder in self.elsewhere.items():
            print(f"{key}: trained elsewhere ({holder})", file=sys.stderr)
        for key, reason in self.failed.items():
            print(f"error: {key}: {reason}", file=sys.stderr)
        if self.out_of_time:
            print("the time is up; the same command continues", file=sys.stderr)
        return BAD_INPUT if self.failed else OK


def run_trials(
    wanted: Sequence[Trial],
    out: str | Path,
    runs: str | Path,
    minutes: float | None = None,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Train and test the trials without a result, in order; a failure of one does not stop the others.

    Args:
        out, runs: the folders for results and runs; shared by the processes.
        minutes: stop the training after these, with a checkpoint; a trained run is still tested.
    """
    missing = in_order([one for one in wanted if read_result(out, one) is None], runs)
    for one in missing:  # before hours are spent on another trial
        read_result(out, one)
        check_run(run_folder(runs, one), one)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    outcome = Outcome()
    for number, one in enumerate(missing, 1):
        if end is not None and time.monotonic() >= end:
            outcome.out_of_time = True
            break
        if waits(one, runs):
            continue  # the outcome reports the trial that it starts from
        folder = run_folder(runs, one)
        with locked(folder.with_name(f"{one.stem}.lock")) as holder:
            if holder is not None:
                outcome.elsewhere[one.key] = holder
                continue
            if read_result(out, one) is not None and not _awaited(one, missing, runs):
                continue  # another process measured it while we were busy
            say(f"\n[{number}/{len(missing)}] {one.title}")
            try:
                path = _measure(one, Path(out), Path(runs), end)
            except Stopped:
                if end is not None and time.monotonic() >= end:
                    outcome.out_of_time = True
                    break
                raise
            except Exception as error:  # out of memory, a disk that is full: the others may still be run
                outcome.failed[one.key] = _why(error, _error_file(folder))
                say(f"failed: {outcome.failed[one.key]}")
                continue
            _error_file(folder).unlink(missing_ok=True)
            outcome.done.append(one.key)
            say(f"wrote {path}")
    return outcome


def _error_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.error.txt")


def _why(error: Exception, file: Path) -> str:
    """The error in one line; the traceback of an unexpected one goes to a file beside the run."""
    if isinstance(error, ReqnnError):
        return str(error)
    said = f"{type(error).__name__}: {error}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace")
    except OSError:  # the disk that is full
        return said
    return f"{said} (traceback: {file})"


def _awaited(one: Trial, others: Sequence[Trial], runs: str | Path) -> bool:
    """Whether others wait for the weights of this trial: it is trained then even if it has a result."""
    return any(other.after == one and waits(other, runs) for other in others)


def _measure(one: Trial, out: Path, runs: Path, end: float | None) -> Path:
    config, folder = run_settings(one, runs), run_folder(runs, one)
    clouds = load_test_set(config, one.test_shapes)  # fail before training if the test set is missing
    with _stopped_at(end):
        run = fit(config, resume=True)
    if read_result(out, one) is not None:
        return folder  # only its weights were needed: the published result stays
    found: dict[str, Any] = {}
    if one.test_options:
        found["upright_as_trained"] = evaluate(run.model, clouds, "NR").accuracy
        run = load_run(folder, options=dict(one.test_options))
    found |= rotation_test(run, clouds, one.copies, SEED)
    result = {
        "cell": one.key,
        "title": one.title,
        "budget": Path(one.group).name,
        "command": one.command,
        **found,
        "test": {
            "shapes": len(clouds),
            "copies": one.copies,
            "seed": SEED,
            "limit": one.test_shapes,
            "fingerprint": clouds.fingerprint(),
        },
        **run_facts(run),
    }
    return write_result(out, one, result, folder / "log.csv")


@contextmanager
def _stopped_at(end: float | None) -> Iterator[None]:
    """Interrupt the training at a time, as by Ctrl-C: it writes a checkpoint."""
    if end is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    timer = threading.Timer(max(0.0, end - time.monotonic()), _thread.interrupt_main)
    timer.daemon = True
    before = signal.signal(signal.SIGINT, _stop)  # a shell's background jobs ignore interrupts
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def _stop(*signal_and_frame: Any) -> None:
    raise Stopped("interrupted before the first step, or after the last")
