"""`reqnn eval`: test trained networks on rotated objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console, make_folder, optional, show_written, write_json
from reqnn.errors import InputError, check_least
from reqnn.train.config import JsonObject

if TYPE_CHECKING:
    from reqnn.data.dataset import PointClouds
    from reqnn.train.evaluation import Evaluation
    from reqnn.train.run import Run


@dataclass(kw_only=True)
class Eval(Command):
    """Test trained networks on rotated objects: accuracy, confusion, and whether the answer stays the same.

    Each test shape is rotated ten times, by seeded rotations: NR none, y or z about that axis, vertical about the data set's
    vertical axis, AR arbitrary. Several runs, such as an original and its REQNN, share one table and one picture.
    For segmentation: instance and class mIoU, and the share of points whose part changes with the rotation.
    For normals: the angle to the true normals, beside PCA normals of as many neighbours.
    For reconstruction: Chamfer distance, exact EMD (--emd), and whether the result rotates with the object.

    Examples:
        reqnn eval runs/modelnet40-dgcnn-reqnn-0 --protocol NR AR
        reqnn eval runs/original runs/reqnn --protocol NR vertical AR --out comparison
        reqnn eval runs/reqnn --options '{"votes": 5}'
        reqnn eval runs/reqnn/last.safetensors --protocol AR --limit 200 --angles 0 --json -
        reqnn eval runs/autoencoder runs/autoencoder-original --copies 2 --emd 20 --out comparison
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
    """Angles from 0° to 180° in the plot of accuracy against rotation angle; 0 for no plot."""
    angle_limit: int = 400
    """Shapes of that plot, at most."""
    emd: int = 0
    """Reconstruction: shapes to compute the exact earth mover's distance for; 0.1 s each at 1024 points."""
    batch: int = 32
    """Batch size."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device."""
    json: Annotated[str | None, optional("FILE")] = None
    """Also write all figures as JSON; "-" for stdout, instead of the tables."""
    out: Annotated[str | None, optional("FOLDER")] = None
    """Folder for evaluation.json and the pictures. Default: `evaluation` in the (first) run's folder."""

    def run(self) -> int:
        """Test each run under each protocol; print and draw."""
        if not self.runs:
            raise InputError("name at least one run: a folder that `reqnn train` wrote, or a weights file")
        loaded = self._load_all()
        task = next(iter(loaded.values()))[0].config.task
        if task == "segmentation":
            return self._segmentation(loaded)
        if task == "normals":
            return self._normals(loaded)
        return self._reconstruction(loaded) if task == "reconstruction" else self._classification(loaded)

    def _classification(self, loaded: dict[str, tuple[Run, PointClouds]]) -> int:
        from reqnn.train.evaluation import accuracy_by_angle, evaluate
        from reqnn.train.pictures import by_class, draw_angles, draw_confusion, overall

        found: dict[str, list[Evaluation]] = {}
        curves: dict[str, list[float]] = {}
        angles = [180 * i / (self.angles - 1) for i in range(self.angles)] if self.angles > 1 else []
        for name, (run, clouds) in loaded.items():
            for protocol in self.protocol:
                with busy(f"{name}: {len(clouds)} shapes under {protocol}"):
                    result = evaluate(run.model, clouds, protocol, self.copies, self.seed, self.batch)
                found.setdefault(name, []).append(result)
            if angles:
                some = subset(clouds, self.angle_limit, self.seed)
                with busy(f"{name}: {len(some)} shapes at {len(angles)} angles"):
                    curves[name] = accuracy_by_angle(run.model, some, angles, self.seed, self.batch)
        records = self._records(loaded, found)
        paths = [self._write(loaded, {"runs": records, "angles": angles, "accuracy_by_angle": curves})]
        folder = paths[0].parent
        for number, (name, results) in enumerate(found.items(), start=1):
            which = f"-{number}" if len(found) > 1 else ""
            paths += [draw_confusion(result, name, folder / f"confusion{which}-{result.protocol}.png") for result in results]
        if angles:
            revised = [name for name, (run, _) in loaded.items() if run.config.equivariant]
            chance = 1 / len(next(iter(loaded.values()))[0].classes)
            paths.append(draw_angles(angles, curves, revised, chance, folder / "accuracy_by_angle.png"))
        if self.json != "-":
            console().print(overall(found), by_class(found), sep="\n")
            show_written(paths)
        return OK

    def _segmentation(self, loaded: dict[str, tuple[Run, PointClouds]]) -> int:
        from reqnn.train.pictures import by_class, segmentation
        from reqnn.train.segmentation import SegmentationEvaluation, draw_parts, evaluate_segmentation

        found: dict[str, list[SegmentationEvaluation]] = {name: [] for name in loaded}
        for name, (run, clouds) in loaded.items():
            for protocol in self.protocol:
                with busy(f"{name}: {len(clouds)} shapes under {protocol}"):
                    result = evaluate_segmentation(run.model, clouds, protocol, self.copies, self.seed, self.batch)
                found[name].append(result)
        written = self._write(loaded, {"runs": self._records(loaded, found)})
        models = {name: run.model for name, (run, _) in loaded.items()}
        picture = draw_parts(models, next(iter(loaded.values()))[1], written.with_name("parts.png"), self.seed)
        if self.json != "-":
            console().print(segmentation(found), by_class(found, "mIoU"), sep="\n")
            show_written((written, picture))
        return OK

    def _normals(self, loaded: dict[str, tuple[Run, PointClouds]]) -> int:
        from reqnn.train.normals import NormalsEvaluation, draw_normals, evaluate_normals, normals_table

        found: dict[str, list[NormalsEvaluation]] = {name: [] for name in loaded}
        for name, (run, clouds) in loaded.items():
            for protocol in self.protocol:
                with busy(f"{name}: {len(clouds)} shapes under {protocol}"):
                    found[name].append(evaluate_normals(run.model, clouds, protocol, self.copies, self.seed, self.batch))
        written = self._write(loaded, {"runs": self._records(loaded, found)})
        models = {name: run.model for name, (run, _) in loaded.items()}
        picture = draw_normals(models, next(iter(loaded.values()))[1], written.with_name("normals.png"), self.seed)
        if self.json != "-":
            console().print(normals_table(found))
            show_written((written, picture))
        return OK

    def _records(self, loaded: dict[str, tuple[Run, PointClouds]], found: dict[str, Any]) -> list[dict[str, Any]]:
        """The results of each run, for JSON."""
        return [
            {
                "run": name,
                "epoch": run.row.get("epoch"),
                "config": run.config.without_folders(),
                "results": [result.to_dict() for result in found[name]],
            }
            for name, (run, _) in loaded.items()
        ]

    def _reconstruction(self, loaded: dict[str, tuple[Run, PointClouds]]) -> int:
        from reqnn.train.pictures import reconstruction
        from reqnn.train.reconstruction import compare, draw_comparison

        with busy(f"{', '.join(loaded)} under {', '.join(self.protocol)}"):
            found = compare(loaded, self.protocol, copies=self.copies, seed=self.seed, batch=self.batch, emd=self.emd)
        written = self._write(loaded, {"runs": [comparison.to_dict() for comparison in found]})
        picture = draw_comparison(loaded, written.with_name("reconstructions.png"), self.seed)
        if self.json != "-":
            console().print(reconstruction(found))
            show_written((written, picture))
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

    def _write(self, loaded: dict[str, tuple[Run, PointClouds]], report: dict[str, Any]) -> Path:
        """Write evaluation.json, and to --json."""
        from reqnn.provenance import provenance

        first = next(iter(loaded.values()))[0].folder
        path = make_folder(self.out or (first or Path()) / "evaluation") / "evaluation.json"
        for target in (path, self.json):
            if target is not None:
                write_json({**report, "provenance": provenance()}, target)
        return path


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
