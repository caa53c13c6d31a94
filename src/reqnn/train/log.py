"""The log of a run: log.csv, metrics.json, a plot of the learning curve, and TensorBoard files if asked."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any

from reqnn.extras import need
from reqnn.train.checkpoint import write_json, write_text
from reqnn.train.task import Task

REDRAW = 60.0  # seconds between two drawings of the curve while training


class RunLog:
    """Writes the log of a run, one row per epoch; files are rewritten completely, so that a resumed run can go back."""

    def __init__(self, folder: Path, task: Task, tensorboard: bool = False, step: int = 0) -> None:
        self.folder, self.task = folder, task
        self._drawn = time.monotonic()
        self._events: Any = _events(folder / "tensorboard", step) if tensorboard else None

    def write(self, history: list[dict[str, float]], metrics: dict[str, Any], final: bool = False) -> None:
        """Write log.csv, metrics.json and the last row to TensorBoard; draw the curve every minute and at the end."""
        write_json(self.folder / "metrics.json", metrics)
        table = io.StringIO()
        writer = csv.DictWriter(table, list(history[0]))
        writer.writeheader()
        writer.writerows(history)
        write_text(self.folder / "log.csv", table.getvalue())
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
        for part, colour in (("train", "#888888"), ("validation", "#1f5fa8")):
            values = [row[f"{part}_{what}"] * (100 if task.higher and what == task.metric else 1) for row in history]
            axis.plot(epochs, values, color=colour, label=part, marker="." if len(epochs) < 30 else "")
        axis.set_xlabel("epoch")
        axis.set_ylabel(f"{what}, %" if task.higher and what == task.metric else what)
        if not task.higher:
            axis.set_yscale("log")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


def _events(folder: Path, step: int) -> Any:
    need("tensorboard")
    return need("torch.utils.tensorboard").SummaryWriter(str(folder), purge_step=step or None)
