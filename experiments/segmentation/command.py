"""`python -m experiments segmentation`: test the runs of `cells.json`, write the table of mean IoU."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from experiments.harness.table import Cell, Table
from experiments.segmentation.cells import METHODS, NETWORKS, name_of
from reqnn.commands.base import OK, Command, console, show_written
from reqnn.errors import InputError

TRAIN = "python -m experiments.queue --cells experiments/segmentation/cells.json --runs {runs}"


@dataclass(kw_only=True)
class Segmentation(Command):
    """Instance and class mIoU on ShapeNet Part, upright and in any orientation, for ordinary and revised networks.

    Trains nothing: the queue trains the runs, one after the other. Finished runs are tested once and their results kept.

    Examples:
        python -m experiments.queue --cells experiments/segmentation/cells.json --runs runs/segmentation
        python -m experiments segmentation --runs runs/segmentation --out results
    """

    runs: Annotated[str, tyro.conf.arg(metavar="DIR")] = "runs/segmentation"
    """The folder of the runs."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for results: segmentation.json, .md and .png."""
    copies: int = 10
    """Arbitrary rotations of each test shape."""
    limit: int | None = None
    """Test on a fixed choice of so many shapes."""

    def run(self) -> int:
        """Test what is finished and new, print, write, draw the parts."""
        from experiments.data_efficiency.command import finished
        from experiments.harness.files import write_page, write_result_file

        file = Path(self.out) / "segmentation.json"
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else {}
        new = []
        for name in (name_of(network, method) for network in NETWORKS for method in METHODS):
            if name not in found and finished(Path(self.runs) / name):
                console().print(f"testing {name}")
                found[name] = test(Path(self.runs) / name, self.copies, self.limit)
                write_result_file(file, {"command": TRAIN.format(runs="RUNS"), "runs": found})
                new.append(name)
        if not found:
            raise InputError(f"{self.runs} holds no finished run; train them: {TRAIN.format(runs=self.runs)}")
        shown = table(found)
        shown.print(console())
        written = [file, write_page(file.with_suffix(".md"), shown.to_markdown())]
        if new:
            written.append(draw(Path(self.runs), found, file.with_suffix(".png")))
        show_written(written)
        return OK


def test(folder: Path, copies: int, limit: int | None) -> dict[str, Any]:
    """Mean IoU upright and rotated of the weights that were best on validation."""
    from experiments.harness.accuracy import load_test_set, run_facts
    from reqnn.train.evaluation import evaluate_segmentation
    from reqnn.train.run import load_run

    run = load_run(folder)
    clouds = load_test_set(run.config, limit)
    upright, rotated = (evaluate_segmentation(run.model, clouds, protocol, copies) for protocol in ("NR", "AR"))
    return {
        "upright": upright.to_dict(),
        "rotated": rotated.to_dict(),
        "same_answer": 1 - rotated.inconsistent,
        **run_facts(run),
        "validation_miou": run.row.get("validation_miou"),
    }


def table(found: dict[str, Any]) -> Table:
    """A row per network and method."""
    rows = []
    for network, (title, _, epochs) in NETWORKS.items():
        for method, (kind, _) in METHODS.items():
            result = found.get(name_of(network, method))
            if result is not None:
                upright, rotated = result["upright"], result["rotated"]
                scores = [f"{upright[m]:.1%} → {rotated[m]:.1%}" for m in ("instance_miou", "class_miou")]
                size, hours = f"{result['parameters']:,}", f"{(result['seconds'] or 0) / 3600:.1f}"
                texts = (title, kind, *scores, f"{result['same_answer']:.3%}", size, str(epochs), hours)
                rows.append([Cell(text) for text in texts])
    return Table(
        "segmentation",
        "Part segmentation on ShapeNet Part, trained upright: mean IoU upright → in any orientation",
        ["network", "rules", "instance mIoU", "class mIoU", "points with one answer", "parameters", "epochs", "hours"],
        rows,
        [],
        notes=[
            "Test shapes upright → each in ten arbitrary rotations; 512 of 1024 points, another choice in each epoch; half "
            "the published width, Muon, one seed, one core. Weights are selected by instance mIoU on the validation split.",
            "Published, class / instance: RIConv++ 80.5 / –, PaRot 79.2 / 82.9, LocoTrans 80.1 / 84.0; VN-DGCNN 81.4; "
            "they are trained far longer and on all training shapes; here train is capped at 600 shapes per category.",
            f"`{TRAIN.format(runs='RUNS')}`, then `python -m experiments segmentation --runs RUNS --out results`",
        ],
    )


def draw(runs: Path, found: dict[str, Any], path: Path) -> Path:
    """The parts of six objects by each tested DGCNN, or by all networks if none is tested."""
    from experiments.harness.accuracy import load_test_set
    from experiments.pictures.evaluation import draw_parts
    from reqnn.train.run import load_run

    names = [name for name in found if name.startswith("dgcnn") and (runs / name).exists()] or list(found)
    loaded = {name: load_run(runs / name) for name in names if (runs / name).exists()}
    clouds = load_test_set(next(iter(loaded.values())).config)
    return draw_parts({name: run.model for name, run in loaded.items()}, clouds, path)
