"""`python -m experiments bench`: time and memory of networks and kernels."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from experiments.bench.settings import Settings
from reqnn.commands.base import OK, Command, console
from reqnn.errors import InputError


@dataclass(kw_only=True)
class Bench(Command):
    """Time original and revised networks, rule sets, kernels, memory, the distance to the limit and growth with the points.

    All variants are timed in turn in each repeat, after a warm-up; ratios are taken within a repeat. The networks have their
    published size, in float32, on clouds from surfaces. A full run takes an hour or more; --what chooses parts.

    Examples:
        python -m experiments bench --quick
        python -m experiments bench --what models --models dgcnn --batch 4 16 --points 1024
        python -m experiments bench --what memory rules --batch 4 16 --points 1024 --add
        python -m experiments bench --out results
    """

    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    """What to measure."""

    quick: bool = False
    """Everything in less than a minute: narrow networks and small clouds."""

    add: bool = False
    """Keep the parts in bench.json that are not measured now."""

    out: str = "results"
    """The folder for bench.json, bench.md and bench.png; with --quick, bench-quick.json and so on."""

    def run(self) -> int:
        """Measure, print, write."""
        from experiments.bench.plot import draw
        from experiments.bench.report import left_out, markdown, tables
        from experiments.bench.run import run
        from experiments.harness.files import write_page, write_result_file

        settings = self.settings.quick() if self.quick else self.settings
        name = "bench-quick" if self.quick else "bench"
        file = Path(self.out) / f"{name}.json"
        before = _read(file) if self.add else {}
        write_result_file(file, before)  # fail now, not in an hour, if the folder cannot be written
        results: dict[str, Any] = {}
        for results in run(settings, lambda message: print(message, file=sys.stderr, flush=True), before):
            write_result_file(file, results)
        picture = draw(results, file.with_suffix(".png"))
        write_page(file.with_suffix(".md"), markdown(results, picture.name if picture else None))
        screen = console()
        for table in tables(results):
            table.print(screen)
        for line in left_out(results):
            screen.print(f"left out: {line}", highlight=False, markup=False)
        screen.print(f"wrote {file} with .md{' and .png' if picture else ''}", highlight=False, soft_wrap=True)
        return OK


def _read(path: Path) -> dict[str, Any]:
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"--add: {path} holds no results to add to ({error}); leave --add out") from error
    return results
