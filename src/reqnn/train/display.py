"""Training progress: a progress bar on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from typing import Any

from reqnn.train.task import Task

PAUSE = 30.0  # seconds between plain lines within an epoch


class Display:
    """Loss, metric, clouds per second and time left of a run of `steps` steps; silent if `shown` is False."""

    def __init__(self, task: Task, epochs: int, steps: int, start: int, batch: int, shown: bool = True) -> None:
        self.task, self.epochs, self.steps, self.batch, self.shown = task, epochs, steps, batch, shown
        self.pace = 0.0  # seconds per step, a moving average
        self._last = self._printed = time.monotonic()
        self._bar: Any = None
        if shown and sys.stdout.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task("", total=steps, completed=start, state="", left="")

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, done: int, epoch: int, loss: float, metric: float) -> None:
        """After a step: `done` of all steps; loss and metric of the epoch so far."""
        now = time.monotonic()
        self.pace = now - self._last if not self.pace else 0.95 * self.pace + 0.05 * (now - self._last)
        self._last = now
        if not self.shown:
            return
        task = self.task
        state = f"loss {task.show_loss(loss)}  {task.metric} {task.show(metric):>7}  {self.speed:.0f} clouds/s"
        left = clock(self.pace * (self.steps - done))
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=f"epoch {epoch}/{self.epochs}", state=state, left=left)
        elif now - self._printed > PAUSE:
            self.line(f"epoch {epoch}/{self.epochs}  step {done}/{self.steps}  {state}  {left} left")

    def epoch(self, row: dict[str, float], best: float) -> None:
        """After an epoch: its row of the log."""
        self._last = time.monotonic()  # validation is not part of a step
        show, metric = self.task.show, self.task.metric
        self.line(
            f"epoch {row['epoch']}/{self.epochs}  loss {self.task.show_loss(row['train_loss'])}"
            f"  {metric} {show(row[f'train_{metric}'])}  validation {show(row[f'validation_{metric}'])} (best {show(best)})"
            f"  {self.speed:.0f} clouds/s  {clock(self.pace * (self.steps - row['step']))} left"
        )

    def line(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if not self.shown:
            return
        self._printed = time.monotonic()
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, flush=True)

    @property
    def speed(self) -> float:
        """Clouds per second."""
        return self.batch / self.pace if self.pace else 0.0


def clock(seconds: float) -> str:
    """3725 → "1:02:05"."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _bar() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}  {task.fields[left]} left"),
    )
