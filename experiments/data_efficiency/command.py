"""`python -m experiments data-efficiency`: test the runs of `cells.json`, write the table and the plot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from experiments.data_efficiency.cells import EPOCHS, METHODS, name_of
from experiments.harness.table import Cell, Table
from reqnn.commands.base import OK, Command, console, show_written

TRAIN = "python -m experiments.queue --cells experiments/data_efficiency/cells.json --runs {runs}"


@dataclass(kw_only=True)
class DataEfficiency(Command):
    """Accuracy in any orientation against the number of training shapes, for ordinary and revised networks.

    Trains nothing: the queue trains the runs, one after the other. Finished runs are tested once and their results kept.

    Examples:
        python -m experiments.queue --cells experiments/data_efficiency/cells.json --runs runs/data_efficiency
        python -m experiments data-efficiency --runs runs/data_efficiency --out results
    """

    runs: Annotated[str, tyro.conf.arg(metavar="DIR")] = "runs/data_efficiency"
    """The folder of the runs."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for results: data_efficiency.json, .md and .png."""
    copies: int = 10
    """Arbitrary rotations of each test shape."""

    def run(self) -> int:
        """Test what is finished and new, print, write, draw."""
        from experiments.harness.files import write_page, write_result_file

        file = Path(self.out) / "data_efficiency.json"
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else {}
        for name in missing(found):
            folder = Path(self.runs) / name
            if finished(folder):
                console().print(f"testing {name}")
                found[name] = test(folder, self.copies)
                write_result_file(file, {"command": TRAIN.format(runs="RUNS"), "runs": found})
        shown = table(found)
        shown.print(console())
        written = [file, write_page(file.with_suffix(".md"), shown.to_markdown())]
        if found:
            written.append(draw(found, file.with_suffix(".png")))
        show_written(written)
        return OK


def missing(found: dict[str, Any]) -> list[str]:
    """Runs without a result."""
    return [name for fraction in EPOCHS for method in METHODS if (name := name_of(method, fraction)) not in found]


def finished(folder: Path) -> bool:
    """Whether all epochs are done."""
    metrics = folder / "metrics.json"
    return metrics.exists() and bool(json.loads(metrics.read_text(encoding="utf-8")).get("finished"))


def test(folder: Path, copies: int) -> dict[str, Any]:
    """Accuracy upright and rotated of the weights that were best on validation."""
    from experiments.harness.accuracy import load_test_set, run_facts
    from reqnn.train.evaluation import evaluate
    from reqnn.train.run import load_run

    run = load_run(folder)
    clouds = load_test_set(run.config)
    upright, rotated = (evaluate(run.model, clouds, protocol, copies) for protocol in ("NR", "AR"))
    return {
        "upright": upright.accuracy,
        "rotated": rotated.accuracy,
        "same_answer": 1 - rotated.inconsistent,
        "copies": copies,
        "test_shapes": len(clouds),
        **run_facts(run),
    }


def table(found: dict[str, Any]) -> Table:
    """A row per method, a column per number of training shapes."""
    fractions = [fraction for fraction in sorted(EPOCHS) if any(name_of(method, fraction) in found for method in METHODS)]
    shapes = {f: next(found[n]["training_clouds"] for m in METHODS if (n := name_of(m, f)) in found) for f in fractions}
    rows = []
    for method, (title, _) in METHODS.items():
        results = [found.get(name_of(method, fraction)) for fraction in fractions]
        cells = ["–" if r is None else f"{r['upright']:.1%} → {r['rotated']:.1%}" for r in results]
        if any(results):
            rows.append([Cell(text) for text in (title, *cells)])
    return Table(
        "data_efficiency",
        "Accuracy in any orientation against the number of training shapes",
        ["DGCNN", *(f"{shapes[f]:,} shapes ({f:.0%})" for f in fractions)],
        rows,
        [],
        notes=[
            "ModelNet40, test shapes upright → each in ten arbitrary rotations. Quarter width, 128 farthest of 1024 points, "
            "10 neighbours, Muon. One seed. Weights are selected on a validation split, upright.",
            f"Epochs of each fraction of the shapes: {', '.join(f'{f:.0%}: {EPOCHS[f]}' for f in fractions)}.",
            f"`{TRAIN.format(runs='RUNS')}`, then `python -m experiments data-efficiency --runs RUNS --out results`",
            "–: not trained yet.",
        ],
    )


def draw(found: dict[str, Any], path: Path) -> Path:
    """One line per method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for method, (title, _) in METHODS.items():
        results = sorted(
            (r["training_clouds"], 100 * r["rotated"]) for f in EPOCHS if (r := found.get(name_of(method, f))) is not None
        )
        if results:
            axes.plot(*zip(*results, strict=True), marker="o", label=title)
    axes.set_xscale("log")
    axes.set_xlabel("training shapes")
    axes.set_ylabel("test accuracy in arbitrary orientation, %")
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, dpi=150)
    return path
