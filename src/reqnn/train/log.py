"""What a run shows and writes: progress on the terminal; log.csv, metrics.json, the learning curve, TensorBoard files."""

from __future__ import annotations

import csv
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress

from reqnn.data.files import atomic_file
from reqnn.extras import need
from reqnn.train.checkpoint import write_json
from reqnn.train.task import Task

PAUSE = 30.0  # seconds between plain lines within an epoch
REDRAW = 60.0  # seconds between two drawings of the curve


class Display:
    """Loss, metric, clouds per second and time left: a bar on a terminal, else plain lines; nothing if `shown` is False."""

    def __init__(self, task: Task, epochs: int, steps: int, start: int, batch: int, shown: bool = True) -> None:
        self.task, self.epochs, self.steps, self.batch, self.shown = task, epochs, steps, batch, shown
        self.pace = 0.0  # seconds per step, a moving average
        self._last = self._printed = time.monotonic()
        live = shown and sys.stdout.isatty()
        self._bar = Progress("{task.description}", BarColumn(bar_width=24), "{task.fields[state]}", disable=not live)
        self._task = self._bar.add_task("", total=steps, completed=start, state="")

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bar.disable:  # rich 13 would print an empty line
            self._bar.stop()

    def step(self, done: int, epoch: int, loss: float, metric: float) -> None:
        """After a step: `done` of all steps; loss and metric of the epoch so far."""
        now = time.monotonic()
        self.pace = now - self._last if not self.pace else 0.95 * self.pace + 0.05 * (now - self._last)
        self._last = now
        if not self.shown:
            return
        task, where = self.task, f"epoch {epoch}/{self.epochs}"
        state = f"loss {task.show_loss(loss)}  {task.metric} {task.show(metric):>7}  {self._left(done)}"
        self._bar.update(self._task, completed=done, description=where, state=state)
        if self._bar.disable and now - self._printed > PAUSE:
            self.line(f"{where}  step {done}/{self.steps}  {state}")

    def epoch(self, row: dict[str, float], best: float) -> None:
        """After an epoch: its row of the log."""
        self._last = time.monotonic()  # validation is not part of a step
        show, metric = self.task.show, self.task.metric
        self.line(
            f"epoch {row['epoch']}/{self.epochs}  loss {self.task.show_loss(row['train_loss'])}"
            f"  {metric} {show(row[f'train_{metric}'])}  validation {show(row[f'validation_{metric}'])} (best {show(best)})"
            f"  {self._left(int(row['step']))}"
        )

    def line(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if not self.shown:
            return
        self._printed = time.monotonic()
        if self._bar.disable:
            print(text, flush=True)
        else:
            self._bar.console.print(text, highlight=False, markup=False)

    def _left(self, done: int) -> str:
        speed = self.batch / self.pace if self.pace else 0.0
        return f"{speed:.0f} clouds/s  {timedelta(seconds=int(self.pace * (self.steps - done)))} left"


class RunLog:
    """Writes the log of a run, one row per epoch; files are rewritten completely, so that a resumed run can go back."""

    def __init__(self, folder: Path, task: Task, tensorboard: bool = False, step: int = 0) -> None:
        self.folder, self.task = folder, task
        self._drawn = time.monotonic()
        self._events: Any = None
        if tensorboard:
            need("tensorboard")
            self._events = need("torch.utils.tensorboard").SummaryWriter(str(folder / "tensorboard"), purge_step=step or None)

    def write(self, history: list[dict[str, float]], metrics: dict[str, Any], final: bool = False) -> None:
        """Write log.csv, metrics.json and the last row to TensorBoard; draw the curve every minute and at the end."""
        write_json(self.folder / "metrics.json", metrics)
        with atomic_file(self.folder / "log.csv") as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(history[0]))
            writer.writeheader()
            writer.writerows(history)
        if self._events is not None and not final:
            for name, value in history[-1].items():
                self._events.add_scalar(name, value, history[-1]["step"])
            self._events.flush()
        if final or time.monotonic() - self._drawn > REDRAW:
            draw_curve(history, self.task, self.folder / "curve.png")
            self._drawn = time.monotonic()


def draw_curve(history: list[dict[str, float]], task: Task, path: Path) -> None:
    """Loss and metric against the epoch, training and validation; logarithmic for metrics that decrease."""
    figure = need("matplotlib.figure").Figure(figsize=(9, 3.4), layout="constrained")
    epochs = [row["epoch"] for row in history]
    for axis, what in zip(figure.subplots(1, 2), ("loss", task.metric), strict=True):
        percent = task.higher and what == task.metric
        for part, colour in (("train", "#888888"), ("validation", "#1f5fa8")):
            values = [row[f"{part}_{what}"] * (100 if percent else 1) for row in history]
            axis.plot(epochs, values, color=colour, label=part, marker="." if len(epochs) < 30 else "")
        axis.set(xlabel="epoch", ylabel=f"{what}, %" if percent else what, yscale="linear" if task.higher else "log")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=120)
