"""`python -m experiments frames`: test the runs of `cells.json`, in frames too, and write the table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from experiments.data_efficiency.command import finished
from experiments.frames.cells import METHODS, MODELS, RUNS
from experiments.harness.table import Cell, Table
from reqnn.commands.base import OK, Command, console, show_written

if TYPE_CHECKING:
    from torch import nn

    from reqnn.data.dataset import PointClouds

TRAIN = "python -m experiments.queue --cells experiments/frames/cells.json --runs runs/frames"
AS_TRAINED = "in frames, as trained upright"
BATCH = 16


@dataclass(kw_only=True)
class Frames(Command):
    """Networks trained upright, made rotation-invariant by PCA frames: as they are, and after a little fine-tuning.

    Trains nothing: the queue trains the runs, one after the other. Finished runs are tested once and their results kept.

    Examples:
        python -m experiments.queue --cells experiments/frames/cells.json --runs runs/frames
        python -m experiments frames --runs runs/frames --out results
    """

    runs: Annotated[str, tyro.conf.arg(metavar="DIR")] = RUNS
    """The folder of the runs."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for results: frames.json and .md."""
    copies: int = 3
    """Arbitrary rotations of each test shape."""
    limit: int | None = None
    """Test only this many shapes."""

    def run(self) -> int:
        """Test what is finished and new, print, write."""
        from experiments.harness.files import write_page, write_result_file

        file = Path(self.out) / "frames.json"
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else {}
        for name in (f"{model}-{method}" for model in MODELS for method in METHODS):
            folder = Path(self.runs) / name
            if name not in found and finished(folder):
                console().print(f"testing {name}")
                found |= test(folder, self.copies, self.limit)
                write_result_file(file, {"command": TRAIN, "runs": found})
        shown = table(found)
        shown.print(console())
        show_written([*([file] if found else []), write_page(file.with_suffix(".md"), shown.to_markdown())])
        return OK


def test(folder: Path, copies: int, limit: int | None) -> dict[str, Any]:
    """Results of a run; of one trained upright also those of its network in frames, with the same weights."""
    import reqnn
    from experiments.harness.accuracy import load_test_set, run_facts
    from reqnn.train.run import load_run

    run = load_run(folder)
    clouds = load_test_set(run.config, limit)
    found = {folder.name: accuracy(run.model, clouds, copies) | run_facts(run)}
    if not run.config.equivariant:
        net = reqnn.revise(run.model, clouds.points[:2], rules="frames", init="copy").eval()
        found[folder.name.replace("upright", "frames")] = accuracy(net, clouds, copies)
    return found


def accuracy(net: nn.Module, clouds: PointClouds, copies: int) -> dict[str, Any]:
    """Accuracy upright and rotated, and CPU time per cloud."""
    import time

    import torch

    from reqnn.train.evaluation import evaluate

    upright, rotated = (evaluate(net, clouds, protocol, copies) for protocol in ("NR", "AR"))
    points = clouds.points[:BATCH]
    with torch.no_grad():
        net(points)
        start = time.process_time()
        net(points)
    spent = (time.process_time() - start) / len(points)
    same = 1 - rotated.inconsistent
    return {"upright": upright.accuracy, "rotated": rotated.accuracy, "same_answer": same, "milliseconds": 1e3 * spent}


def table(found: dict[str, Any]) -> Table:
    """A row per network and method."""
    rows, records = [], []
    for model, (title, _) in MODELS.items():
        methods = [(method, what) for method, (what, _, _) in METHODS.items()]
        methods.insert(1, ("frames", AS_TRAINED))
        for method, what in methods:
            result = found.get(f"{model}-{method}")
            if result is None:
                continue
            base = found.get(f"{model}-upright", result)["milliseconds"]
            training = f"{result['seconds'] / 60:.0f} min" if result.get("seconds") else "–"
            accuracies = [f"{result[key]:.1%}" for key in ("upright", "rotated", "same_answer")]
            rows.append([Cell(t) for t in (f"{title}, {what}", *accuracies, f"{result['milliseconds'] / base:.2f}", training)])
            records.append({"model": model, "method": method, **result})
    return Table(
        "frames",
        "Networks that are trained already, in PCA frames",
        ["network", "upright", "rotated", "same answer", "time per cloud", "training"],
        rows,
        records,
        notes=[
            "ModelNet40, test shapes upright and each in arbitrary rotations. Quarter width, 1024 points, Muon, one seed; "
            "training clouds upright. Weights are selected on a validation split, upright.",
            "Time per cloud: relative to the ordinary network, inference, one thread. In frames the network runs four times.",
            "Training of fine-tuned networks: without that of the upright one.",
            f"`{TRAIN}`, then `python -m experiments frames --runs runs/frames --out results`",
        ],
    )
