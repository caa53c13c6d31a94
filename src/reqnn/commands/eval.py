"""`reqnn eval`: test trained networks on rotated objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console, make_folder, optional, show_written, write_json
from reqnn.errors import InputError
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
        if all(run.config.task == "reconstruction" for run, _ in loaded.values()):
            return self._reconstruction(loaded)
        found: dict[str, tuple[Run, list[Evaluation]]] = {}
        sweep = [180 * i / (self.angles - 1) for i in range(self.angles)] if self.angles > 1 else []
        curves: dict[str, list[float]] = {}
        for name, (run, clouds) in loaded.items():
            found[name] = run, [self._evaluate(run, clouds, protocol, name) for protocol in self.protocol]
            if sweep:
                curves[name] = self._sweep(run, clouds, sweep, name)
        records = [
            {
                "run": name,
                "epoch": run.row.get("epoch"),
                "config": run.config.without_folders(),
                "results": [e.to_dict() for e in results],
            }
            for name, (run, results) in found.items()
        ]
        written = self._write(loaded, {"runs": records, "angles": sweep, "accuracy_by_angle": curves})
        paths = [written, *self._draw(found, sweep, curves, written.parent)]
        if self.json != "-":
            self._print(found, paths)
        return OK

    def _reconstruction(self, loaded: dict[str, tuple[Run, PointClouds]]) -> int:
        """The same for runs of reconstruction."""
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
        """The runs by their names in tables; all must have the same task."""
        loaded: dict[str, tuple[Run, PointClouds]] = {}
        for path in self.runs:
            run, clouds = self._load(path)
            task = next(iter(loaded.values()))[0].config.task if loaded else run.config.task
            if run.config.task != task:
                raise InputError(
                    f"{path} was trained for {run.config.task}, the runs before it for {task}; test them separately"
                )
            loaded[run_title(run) if run_title(run) not in loaded else f"{run_title(run)} ({path})"] = run, clouds
        return loaded

    def _load(self, path: str) -> tuple[Run, PointClouds]:
        """A run on its device, and its test clouds."""
        import torch

        from reqnn import data
        from reqnn.train.run import load_run

        run = load_run(path, self.weights, options=self.options)
        clouds = data.load(self.data or run.config.data, "test", points=run.config.points, root=self.root or run.config.root)
        if run.config.task == "classification" and clouds.classes != run.classes:
            raise InputError(f"{path} was trained on classes that {clouds.name} does not have: {', '.join(run.classes[:5])}, …")
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        run.model.to(device)
        return run, subset(clouds, self.limit, self.seed)

    def _evaluate(self, run: Run, clouds: PointClouds, protocol: str, name: str) -> Evaluation:
        from reqnn.train.evaluation import evaluate

        with busy(f"{name}: {len(clouds)} shapes under {protocol}"):
            return evaluate(run.model, clouds, protocol, self.copies, self.seed, self.batch)

    def _sweep(self, run: Run, clouds: PointClouds, sweep: list[float], name: str) -> list[float]:
        from reqnn.train.evaluation import accuracy_by_angle

        some = subset(clouds, self.angle_limit, self.seed)
        with busy(f"{name}: {len(some)} shapes at {len(sweep)} angles"):
            return accuracy_by_angle(run.model, some, sweep, self.seed, self.batch)

    def _write(self, loaded: dict[str, tuple[Run, PointClouds]], report: dict[str, Any]) -> Path:
        """Write evaluation.json, and to --json."""
        from reqnn.provenance import provenance

        first = next(iter(loaded.values()))[0].folder
        path = make_folder(self.out or (first or Path()) / "evaluation") / "evaluation.json"
        for target in (str(path), self.json):
            if target is not None:
                write_json({**report, "provenance": provenance()}, target)
        return path

    def _draw(
        self, found: dict[str, tuple[Run, list[Evaluation]]], sweep: list[float], curves: dict[str, list[float]], folder: Path
    ) -> list[Path]:
        from reqnn.train.pictures import draw_angles, draw_confusion

        paths = []
        for number, (name, (_, results)) in enumerate(found.items()):
            which = f"-{number + 1}" if len(found) > 1 else ""
            for result in results:
                paths.append(draw_confusion(result, name, folder / f"confusion{which}-{result.protocol}.png"))
        if sweep:
            revised = [name for name, (run, _) in found.items() if run.config.equivariant]
            chance = 1 / len(next(iter(found.values()))[0].classes)
            paths.append(draw_angles(sweep, curves, revised, chance, folder / "accuracy_by_angle.png"))
        return paths

    def _print(self, found: dict[str, tuple[Run, list[Evaluation]]], paths: list[Path]) -> None:
        from reqnn.train.pictures import by_class, overall

        results = {name: results for name, (_, results) in found.items()}
        console().print(overall(results), by_class(results), sep="\n")
        show_written(paths)


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
    if limit < 1:
        raise InputError(f"--limit is {limit}; at least 1 is needed")
    order = torch.randperm(len(clouds), generator=torch.Generator().manual_seed(seed))
    return clouds.subset(order[:limit].sort().values)
