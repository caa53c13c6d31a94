"""`python -m experiments normals`: train on some scanned objects, test on others, upright and rotated, beside PCA normals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from experiments.harness.table import Cell, Table
from reqnn.commands.base import OK, Command, busy, console, show_written

if TYPE_CHECKING:
    from reqnn.data.dataset import PointClouds
    from reqnn.train.evaluation import NormalsEvaluation

NETWORKS: dict[str, dict[str, Any]] = {
    "REQNN by full": {"equivariant": True, "rules": "full", "rule_options": {"unit": "pool"}},
    "REQNN by paper": {"equivariant": True, "rules": "paper", "rule_options": {"c": 0.1}},
    "ordinary": {},
    "ordinary, trained with rotations": {"protocol": "AR"},
}
SETTINGS: dict[str, Any] = {"options": {"width": 0.25, "k": 24}, "scale": 0.2, "jitter": 0.0, "lr": 5e-3, "clip": 1.0}
SETTINGS |= {"accelerator": "cpu", "threads": 1}
POINTS = 1024
NEIGHBOURS = (12, 16, 24, 32)  # of PCA normals
EVERY = 5  # of five objects one is for testing, one for validation, and three for training


@dataclass(kw_only=True)
class Normals(Command):
    """Median angle to the true normals on scanned objects that training has not seen, upright and in any orientation.

    The data ship with the package: 38 objects, 1024 noisy points each. A few minutes of one core per network; Ctrl-C writes a
    checkpoint, and the same command resumes.

    Examples:
        python -m experiments normals --out results
    """

    epochs: int = 1
    """Passes over 22 objects × `copies` samplings."""
    copies: int = 20
    """Training samplings of each object."""
    noise: float = 0.01
    """Standard deviation of the noise on each coordinate, in radii of the object."""
    runs: Annotated[str, tyro.conf.arg(metavar="DIR")] = "runs/normals"
    """The folder of the training runs."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for normals.json, .md and .png."""

    def run(self) -> int:
        """Train, test, print, draw."""
        from experiments.pictures.evaluation import draw_normals
        from reqnn.train import fit, preset
        from reqnn.train.evaluation import evaluate_normals

        train, validation, test = self._objects("train"), self._objects("validation"), self._objects("test")
        found: dict[str, list[NormalsEvaluation]] = {}
        models = {}
        facts: dict[str, dict[str, Any]] = {}
        for name, given in NETWORKS.items():
            console().print(f"\n[bold]{name}[/bold]")
            folder = Path(self.runs) / name.replace(",", "").replace(" ", "-")
            settings = {**SETTINGS, **given, "points": POINTS, "epochs": self.epochs, "out": str(folder)}
            config = preset("quick", task="normals", data="scanned", **settings)
            run = fit(config, train, validation, resume=True)
            with busy(f"{name}: {len(test)} clouds"):
                found[name] = [evaluate_normals(run.model, test, protocol, 3, batch=8) for protocol in ("NR", "AR")]
            other = evaluate_normals(run.model, validation, "AR", 1, batch=8)
            models[name] = run.model
            facts[name] = {"parameters": run.metrics["parameters"], "seconds": run.metrics["last"]["seconds"]}
            facts[name]["other_objects"] = other.to_dict()
        table = _table(found, facts, len(train), test, self)
        table.print(console())
        paths = table.write(Path(self.out))
        shown = {name: models[name] for name in ("REQNN by full", "ordinary")}
        paths.append(draw_normals(shown, test, Path(self.out) / "normals.png"))
        show_written(paths)
        return OK

    def _objects(self, split: str) -> PointClouds:
        """The samplings of a split; each split has its own objects."""
        from reqnn.data.scanned import scanned

        clouds = scanned(split, POINTS, noise=self.noise, copies=self.copies if split == "train" else 1)
        place = {0: "test", 1: "validation"}
        return clouds.subset(
            [i for i, label in enumerate(clouds.labels.tolist()) if place.get(label % EVERY, "train") == split]
        )


def _table(
    found: dict[str, list[NormalsEvaluation]],
    facts: dict[str, dict[str, Any]],
    trained: int,
    test: PointClouds,
    chosen: Normals,
) -> Table:
    from reqnn.train.batches import normals_of
    from reqnn.train.evaluation import pca_normals
    from reqnn.train.task import line_angles

    rows, plain = [], {}
    for k in NEIGHBOURS:
        angles = line_angles(pca_normals(test.points.double(), k), normals_of(test))
        plain[k] = angles.median().item()
        shown = [f"{plain[k]:.2f}°"] * 2 + [f"{angles.mean():.2f}°"] * 2
        rows.append([Cell(text) for text in (f"PCA, k = {k}", *shown, "0°", "–", "–")])
    for name, (upright, rotated) in found.items():
        shown = [f"{value:.2f}°" for value in (upright.median, rotated.median, upright.mean, rotated.mean)]
        minutes = f"{facts[name]['seconds'] / 60:.1f}"
        texts = (name, *shown, f"{rotated.change:.1g}°", f"{facts[name]['parameters']:,}", minutes)
        rows.append([Cell(text) for text in texts])
    return Table(
        "normals",
        "Normals of scanned objects that training has not seen: angle to the true ones, upright and in any orientation",
        ["normals", "median, upright", "rotated", "mean, upright", "rotated", "median change", "parameters", "minutes"],
        rows,
        [{"network": name, **facts[name], "results": [one.to_dict() for one in results]} for name, results in found.items()],
        {"data": "scanned", "points": POINTS, "noise": chosen.noise, "epochs": chosen.epochs, **SETTINGS, "PCA": plain},
        [
            f"{trained} training clouds, {len(test)} test objects that are in no other split, each in three arbitrary "
            "rotations; unoriented normals, angles from 0 to 90°. Networks weigh the k neighbours that PCA weighs equally.",
            "The test objects were looked at when the network was designed. Eight others, which chose nothing (there is one "
            f"epoch), rotated, medians: {_others(facts)}.",
            "Median change: the angle between f(Rx) and R f(x). Minutes of wall clock on one shared core.",
            "`python -m experiments normals --out results`",
        ],
    )


def _others(facts: dict[str, dict[str, Any]]) -> str:
    """The medians on the validation objects, rotated, beside PCA."""
    found = {name: one["other_objects"] for name, one in facts.items()}
    first = next(iter(found.values()))
    listed = [f"PCA {first['pca_median']:.2f}°", *(f"{name} {one['median']:.2f}°" for name, one in found.items())]
    return ", ".join(listed)
