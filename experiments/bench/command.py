"""`python -m experiments bench`: time of the compiled point operations."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from reqnn.commands.base import OK, Command, console, show_written
from reqnn.errors import InputError

if TYPE_CHECKING:
    from experiments.harness.table import Table


@dataclass(kw_only=True)
class Bench(Command):
    """Time farthest point sampling, neighbour search, ball query and density against plain torch and scipy's k-d tree.

    All are timed in turn in each repeat, after a warm-up; ratios are taken within a repeat. float32 clouds from surfaces, one
    query per point. Whole networks are timed by bench-styles.

    Examples:
        python -m experiments bench --points 1024 --repeats 3
        python -m experiments bench --out results
    """

    batch: int = 4
    """Clouds in a batch."""
    points: tuple[int, ...] = (1024, 4096)
    """Points in a cloud."""
    threads: int = 2
    """Threads of torch and of the kernels."""
    repeats: int = 7
    """Repeats; three at most if a round takes longer than --max-seconds."""
    max_seconds: float = 60.0
    """Skip calls that take longer."""
    seed: int = 0
    """Seed of the clouds."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for bench.json and bench.md."""

    def run(self) -> int:
        """Measure, print, write."""
        from experiments.bench.kernels import measure_kernels

        if min(self.batch, self.threads, self.repeats, self.max_seconds, *self.points) <= 0:
            raise InputError("--batch, --points, --threads, --repeats and --max-seconds need numbers above 0")
        records = measure_kernels(self, lambda message: print(message, file=sys.stderr, flush=True))
        shown = table(records, self)
        shown.print(console())
        show_written(shown.write(self.out))
        return OK


def table(records: list[dict[str, Any]], options: Bench) -> Table:
    """A row for each kernel and size; the other ways relative to the kernel."""
    from experiments.bench.kernels import KERNEL, MEANING
    from experiments.harness.table import Cell, Table

    ways = list(dict.fromkeys(r["variant"] for r in records))
    rows: dict[tuple[str, int], dict[str, str]] = {}
    for r in records:
        rows.setdefault((r["kernel"], r["points"]), {})[r["variant"]] = _shown(r, r["variant"] == KERNEL)
    cells = [[*map(str, where), *(row.get(way, "") for way in ways)] for where, row in rows.items()]
    settings = {name: getattr(options, name) for name in ("batch", "threads", "repeats", "seed")}
    left_out = [f"{r['kernel']}, {r['points']} points, {r['variant']}: {r['skipped']}" for r in records if r["skipped"]]
    return Table(
        "bench",
        "Time of point operations (in brackets: relative to the kernel)",
        ["operation", "points", *ways],
        [[Cell(text) for text in row] for row in cells],
        records,
        settings,
        [*(f"{name}: {text}" for name, text in MEANING.items()), *left_out],
    )


def _shown(record: dict[str, Any], alone: bool) -> str:
    from experiments.bench.measure import spread

    if not record["seconds"]:
        return "–"
    seconds = spread(record["seconds"]).median
    time = f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
    return time if alone or not record["relative"] else f"{time} ({record['relative']['median']:.3g}×)"
