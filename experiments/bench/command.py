"""`python -m experiments bench`: what the networks and kernels cost."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.bench.settings import MODELS, WHAT, Settings
from reqnn.commands.base import OK, Command, console
from reqnn.errors import InputError

_DEFAULT = Settings()


@dataclass(kw_only=True)
class Bench(Command):
    """Time original and revised networks, rule sets, kernels, memory, the distance to the limit and growth with the points.

    All variants are timed in turn in each repeat, after a warm-up; ratios are taken within a repeat. The published networks at
    full size, in float32, on clouds from surfaces. A full run takes an hour or more; parts of it can be chosen.

    Examples:
        python -m experiments bench --quick
        python -m experiments bench --what models --models dgcnn --batch 4 16 --points 1024
        python -m experiments bench --what memory rules --batch 4 16 --points 1024 --add
        python -m experiments bench --out results
    """

    what: tuple[Literal["models", "rules", "kernels", "limit", "growth", "memory"], ...] = WHAT  # type: ignore[assignment]
    """Parts of the benchmark."""

    models: tuple[Literal["dgcnn", "pointnet2", "pointconv"], ...] = MODELS  # type: ignore[assignment]
    """Networks."""

    batch: tuple[int, ...] = _DEFAULT.batch
    """Clouds in a batch."""

    points: tuple[int, ...] = _DEFAULT.points
    """Points in a cloud."""

    kernel_points: tuple[int, ...] = _DEFAULT.kernel_points
    """Points in a cloud, where kernels alone are timed."""

    growth_points: tuple[int, ...] = _DEFAULT.growth_points
    """Points in a cloud, where growth is measured."""

    threads: int = _DEFAULT.threads
    """Threads of torch and of the kernels."""

    repeats: int = _DEFAULT.repeats
    """How often everything is timed; three times at most where a round takes longer than --max-seconds."""

    max_seconds: float = _DEFAULT.max_seconds
    """Leave out calls that take longer."""

    seed: int = _DEFAULT.seed
    """Of weights and clouds."""

    quick: bool = False
    """A look at everything in less than a minute: narrow networks and small clouds."""

    add: bool = False
    """Keep what bench.json holds of parts that are not measured now."""

    out: str = "results"
    """The folder for bench.json, bench.md and bench.png; with --quick, bench-quick.json and so on."""

    def settings(self) -> Settings:
        """The options as `experiments.bench` takes them."""
        names = (
            "what",
            "models",
            "batch",
            "points",
            "kernel_points",
            "growth_points",
            "threads",
            "repeats",
            "max_seconds",
            "seed",
        )
        chosen = Settings(**{name: getattr(self, name) for name in names})
        return chosen.quick() if self.quick else chosen

    def run(self) -> int:
        """Measure, print, write."""
        settings = self.settings()
        from experiments.bench.plot import draw
        from experiments.bench.report import left_out, markdown, tables
        from experiments.bench.run import run
        from experiments.harness.files import write_page, write_result_file

        name = "bench-quick" if self.quick else "bench"
        file = Path(self.out) / f"{name}.json"
        before = _read(file) if self.add else {}
        write_result_file(file, before)  # a folder that cannot be written shall be found out now, not in an hour
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
