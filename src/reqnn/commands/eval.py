"""`reqnn eval`: test trained networks on rotated objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console, make_folder, optional, show_written, write_json
from reqnn.commands.experiments import from_clone
from reqnn.errors import InputError, check_least
from reqnn.train.config import JsonObject

if TYPE_CHECKING:
    from rich.table import Table

    from reqnn.data.dataset import PointClouds
    from reqnn.train.run import Run

COLUMNS: dict[str, dict[str, str]] = {
    "classification": {
        "accuracy": "{accuracy:.2%}",
        "class mean": "{class_accuracy:.2%}",
        "answer changes": "{inconsistent:.2%} of shapes",
        "largest logit change": "{logit_change:.2g} (spread {logit_spread:.2g})",
    },
    "segmentation": {
        "instance mIoU": "{instance_miou:.2%}",
        "class mIoU": "{class_miou:.2%}",
        "points right": "{accuracy:.2%}",
        "answer changes": "{inconsistent:.3%} of points",
        "logit change": "{logit_change:.2g}",
    },
    "normals": {
        "median angle": "{median:.2f}°",
        "mean": "{mean:.2f}°",
        "within 10°": "{within_10:.1%}",
        "change": "{change:.1g}°",
        "PCA: median, mean": "{pca_median:.2f}°, {pca_mean:.2f}°",
    },
    "reconstruction": {
        "Chamfer": "{chamfer:.5f}",
        "EMD": "{emd:.4f} ({emd_shapes})",
        "largest Chamfer change": "{chamfer_change:.1g}",
        "f(Rx) − R f(x)": "at most {deviation:.1g}, mean {mean_deviation:.1g}",
    },
}
"""Task → columns of its table; those that speak of a change are empty for one rotation per shape."""

SHARES = {"classification": "accuracy", "segmentation": "mIoU"}
"""Task → what is shown by class."""

ANGLE_SHAPES = 400
"""Shapes in the plot of accuracy against rotation angle, at most."""


@dataclass(kw_only=True)
class Eval(Command):
    """Test trained networks on rotated objects: accuracy, confusion, and whether the answer stays the same.

    Each test shape is rotated ten times, by seeded rotations: NR none, y or z about that axis, vertical about the data set's
    vertical axis, AR arbitrary. Several runs, such as an original and its REQNN, share one table and one picture.
    For segmentation: instance and class mIoU, and the share of points whose part changes with the rotation.
    For normals: the angle to the true normals, beside PCA normals of as many neighbours.
    For reconstruction: Chamfer distance, exact EMD (--emd), and whether the result rotates with the object.
    In a clone of the repository also pictures: confusion, accuracy against the angle, parts, normals, reconstructions.

    Examples:
        reqnn eval runs/modelnet40-dgcnn-reqnn-0 --protocol NR AR
        reqnn eval runs/original runs/reqnn --protocol NR vertical AR --out comparison
        reqnn eval runs/reqnn --options '{"votes": 5}'
        reqnn eval runs/reqnn/last.safetensors --protocol AR --limit 200 --angles 0 --json -
        reqnn eval runs/reconstruction --copies 2 --emd 20 --out comparison
    """

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], optional("RUN [RUN ...]")] = ()
    """Folders of runs, or weights files."""
    protocol: tuple[Literal["NR", "y", "z", "vertical", "AR"], ...] = ("NR", "AR")
    """Rotations to test under."""
    copies: int = 10
    """Rotations per shape."""
    seed: int = 0
    """Seed of the rotations."""
    weights: Literal["best", "last"] = "best"
    """Which weights of a run's folder."""
    options: JsonObject = field(default_factory=dict)
    """Arguments of the networks that differ from training: '{"votes": 5}'."""
    data: Annotated[str | None, optional("NAME")] = None
    """Another data set with the same classes. Default: the one of the training."""
    root: Annotated[str | None, optional("FOLDER")] = None
    """The folder with the data sets. Default: $REQNN_DATA."""
    limit: Annotated[int | None, optional("INT")] = None
    """Test on this many shapes only, drawn by the seed."""
    angles: int = 7
    """Angles from 0° to 180° in the plot of accuracy against rotation angle, for at most 400 shapes; 0 for no plot."""
    emd: int = 0
    """Reconstruction: shapes to compute the exact earth mover's distance for; 0.1 s each at 1024 points."""
    batch: int = 32
    """Batch size."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device."""
    json: Annotated[str | None, optional("FILE")] = None
    """Also write all figures as JSON; "-" for stdout, instead of the tables."""
    out: Annotated[str | None, optional("FOLDER")] = None
    """Folder for evaluation.json and pictures. Default: `evaluation` in the (first) run's folder."""

    def run(self) -> int:
        """Test each run under each protocol; print, write and, in a clone, draw."""
        if not self.runs:
            raise InputError("name at least one run: a folder that `reqnn train` wrote, or a weights file")
        from reqnn.provenance import provenance
        from reqnn.revision.report import count_parameters
        from reqnn.train import evaluation

        loaded = self._load_all()
        first = next(iter(loaded.values()))[0]
        task = first.config.task
        evaluate = getattr(evaluation, "evaluate" if task == "classification" else f"evaluate_{task}")
        settings: dict[str, Any] = {"copies": self.copies, "seed": self.seed, "batch": self.batch}
        settings |= {"emd": self.emd} if task == "reconstruction" else {}
        angles = [180 * i / (self.angles - 1) for i in range(self.angles)] if self.angles > 1 else []
        curves: dict[str, list[float]] = {}
        found: dict[str, list[Any]] = {}
        records = []
        for name, (run, clouds) in loaded.items():
            with busy(f"{name}: {len(clouds)} shapes"):
                found[name] = [evaluate(run.model, clouds, protocol, **settings) for protocol in self.protocol]
                if angles and task == "classification":
                    some = subset(clouds, ANGLE_SHAPES, self.seed)
                    curves[name] = evaluation.accuracy_by_angle(run.model, some, angles, self.seed, self.batch)
            records.append(
                {
                    "run": name,
                    "epoch": run.row.get("epoch"),
                    "config": run.config.without_folders(),
                    "parameters": count_parameters(run.model),
                    "results": [result.to_dict() for result in found[name]],
                }
            )
        report: dict[str, Any] = {"runs": records}
        report |= {"angles": angles, "accuracy_by_angle": curves} if task == "classification" else {}
        folder = make_folder(self.out or (first.folder or Path()) / "evaluation")
        for target in (folder / "evaluation.json", self.json):
            if target is not None:
                write_json({**report, "provenance": provenance()}, target)
        pictures = from_clone("pictures.evaluation")
        drawn = [] if pictures is None else pictures.draw(task, loaded, found, report, folder, self.seed)
        if self.json != "-":
            console().print(overall(task, found))
            if task in SHARES:
                console().print(by_class(found, SHARES[task]))
            show_written([folder / "evaluation.json", *drawn])
        return OK

    def _load_all(self) -> dict[str, tuple[Run, PointClouds]]:
        """The runs on their device, by their names in tables, and their test clouds; all must have the same task."""
        import torch

        from reqnn import data
        from reqnn.train.run import load_run, output_names

        loaded: dict[str, tuple[Run, PointClouds]] = {}
        device = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        for path in self.runs:
            run = load_run(path, self.weights, options=self.options)
            config = run.config
            task = next(iter(loaded.values()))[0].config.task if loaded else config.task
            if config.task != task:
                raise InputError(f"{path} was trained for {config.task}, the runs before it for {task}; test them separately")
            clouds = data.load(self.data or config.data, "test", points=config.points, root=self.root or config.root)
            if task in ("classification", "segmentation") and output_names(config, clouds) != run.classes:
                kind, known = "parts" if task == "segmentation" else "classes", ", ".join(run.classes[:5])
                raise InputError(f"{path} was trained on {kind} that {clouds.name} does not have: {known}, …")
            run.model.to(device)
            title = run_title(run)
            loaded[f"{title} ({path})" if title in loaded else title] = run, subset(clouds, self.limit, self.seed)
        return loaded


def overall(task: str, found: dict[str, list[Any]]) -> Table:
    """One row per network and protocol: how good the answers are, and whether they change with the rotation."""
    from rich.table import Table

    table = Table("network", "rotations", "shapes", *COLUMNS[task])
    for name, results in found.items():
        for one in results:
            values, once = one.to_dict(), one.copies == 1
            kept = {title: text for title, text in COLUMNS[task].items() if not (once and "change" in title)}
            if values.get("emd", 0) is None:
                kept.pop("EMD")
            cells = [kept.get(title, "").format(**values).replace("%", " %") for title in COLUMNS[task]]
            table.add_row(name, one.protocol if once else f"{one.protocol} × {one.copies}", str(one.shapes), *cells)
    return table


def by_class(found: dict[str, list[Any]], what: str) -> Table:
    """The accuracy, or another share, per class, one column per network and protocol."""
    from rich.table import Table

    columns = [(name, result) for name, results in found.items() for result in results]
    table = Table("class", *(f"{name}, {result.protocol}" for name, result in columns), title=f"{what} by class, %")
    for label in columns[0][1].per_class:
        values = [result.per_class.get(label) for _, result in columns]
        table.add_row(label, *("–" if value is None else f"{100 * value:.1f}" for value in values))
    return table


def run_title(run: Run) -> str:
    """The name of a run in tables: "dgcnn", "REQNN of dgcnn", "dgcnn trained with AR"."""
    config = run.config
    kind = f"REQNN of {config.model}" if config.equivariant else config.model
    return kind if config.protocol == "NR" else f"{kind} trained with {config.protocol}"


def subset(clouds: PointClouds, limit: int | None, seed: int) -> PointClouds:
    """At most `limit` clouds, drawn by the seed, in their order."""
    import torch

    if limit is None or limit >= len(clouds):
        return clouds
    check_least(limit, "--limit")
    order = torch.randperm(len(clouds), generator=torch.Generator().manual_seed(seed))
    return clouds.subset(order[:limit].sort().values)
