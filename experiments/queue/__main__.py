"""Train the cells of queue.json one after the other, on one thread and at low priority.

    python -m experiments.queue --runs runs            # continue where the last one stopped
    python -m experiments.queue --runs runs --status   # what is finished, running and waiting

A cell is a call of `reqnn train`; its run is the folder RUNS/NAME. Finished cells are skipped, a stopped one is resumed.
Ctrl-C or SIGTERM writes a checkpoint and stops. A cell that fails is reported, and the next one is trained.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STOPPED = 130  # the exit code of `reqnn train` after Ctrl-C or SIGTERM

ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ENVIRONMENT |= {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""One thread; and freed memory is kept for the next step instead of given back to the system (a fifth faster)."""


@dataclass(frozen=True)
class Cell:
    """One run: its name, what it is for, the test accuracy it aims at in per cent (if any), the arguments of `reqnn train`.

    `result` is a file in the repository that holds the result of the finished run, or FILE#NAME, if it holds several under
    `runs`: such a cell is not trained again.
    """

    name: str
    purpose: str
    target: float | None
    arguments: list[str]
    result: str | None = None

    def finished(self, runs: Path) -> bool:
        """Whether all its epochs are done."""
        return self.tested() or bool(self.metrics(runs).get("finished"))

    def tested(self) -> bool:
        """Whether the repository holds its result."""
        file, _, name = (self.result or "").partition("#")
        if not file or not Path(file).exists():
            return False
        return not name or name in json.loads(Path(file).read_text(encoding="utf-8"))["runs"]

    def metrics(self, runs: Path) -> dict[str, Any]:
        """What the run has reached so far; empty before the end of its first epoch."""
        file = runs / self.name / "metrics.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def command(self, runs: Path) -> list[str]:
        """The program and its arguments; the same command starts and resumes the run."""
        return [sys.executable, "-m", "experiments", "train", *self.arguments, "--resume", "--out", str(runs / self.name)]

    def status(self, runs: Path) -> str:
        """One line."""
        metrics = self.metrics(runs)
        last = metrics.get("last") or {}
        best = next((value for name, value in metrics.items() if name.startswith("best_validation_")), 0.0)
        state = "finished" if self.finished(runs) else "begun" if (runs / self.name).exists() else "waiting"
        done = f"epoch {last['epoch']:>3}, {last['seconds'] / 3600:4.1f} h, validation {best:.1%}" if last else ""
        target = "" if self.target is None else f"target {self.target} % (test)"
        return f"{state:8}  {self.name:32}  {done:38}  {target}".rstrip()


def load_cells(file: Path) -> list[Cell]:
    """The cells in their order."""
    return [Cell(**values) for values in json.loads(file.read_text(encoding="utf-8"))]


def next_cell(cells: list[Cell], runs: Path, failed: list[str]) -> Cell | None:
    """The first one that has neither failed nor done all its epochs."""
    return next((cell for cell in cells if cell.name not in failed and not cell.finished(runs)), None)


@contextmanager
def only_one(runs: Path) -> Iterator[int]:
    """Refuse to start while another queue, or a run that it started, is at work in the same folder."""
    runs.mkdir(parents=True, exist_ok=True)
    with (runs / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{runs}: a queue is running there already") from None
        yield file.fileno()


def train(command: list[str], lock: int) -> int:
    """Run a command on one thread; SIGTERM is passed on to it, so that it writes a checkpoint."""
    process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, pass_fds=[lock])
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the run has received it, too
            continue


def main() -> int:
    """Train what is left, or show the status."""
    parser = argparse.ArgumentParser(prog="python -m experiments.queue", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="the folder of the runs")
    parser.add_argument("--cells", type=Path, default=Path(__file__).with_name("queue.json"), help="default: %(default)s")
    parser.add_argument("--nice", type=int, default=10, help="niceness of the runs, 0 to 19; default: %(default)s")
    parser.add_argument("--status", action="store_true", help="show what is finished, running and waiting")
    chosen = parser.parse_args()
    if chosen.status:
        print("\n".join(cell.status(chosen.runs) for cell in load_cells(chosen.cells)))
        return 0
    os.setpriority(os.PRIO_PROCESS, 0, max(chosen.nice, os.getpriority(os.PRIO_PROCESS, 0)))
    failed: list[str] = []
    with only_one(chosen.runs) as lock:
        # The file is read again before each cell: the order may change while one trains.
        while cell := next_cell(load_cells(chosen.cells), chosen.runs, failed):
            print(f"{cell.name}: {cell.purpose}", flush=True)
            code = train(cell.command(chosen.runs), lock)
            if code == STOPPED:
                return STOPPED
            if code != 0:
                failed.append(cell.name)
                print(f"{cell.name} failed with exit code {code}", file=sys.stderr, flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all cells are finished")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
