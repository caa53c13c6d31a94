"""`python -m experiments autoencoders`: an ordinary autoencoder and its REQNN on rotated objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import NOT_OK, OK, Command, busy, console, show_written

if TYPE_CHECKING:
    from experiments.harness.table import Table
    from reqnn.data.dataset import PointClouds
    from reqnn.train import ReconstructionEvaluation, Run

ENCODER: dict[str, Any] = {"encoder_options": {"k": 12, "extra_conv": False}}
SETTINGS: dict[str, Any] = {"task": "reconstruction", "model": "autoencoder", "options": ENCODER, "points": 256, "epochs": 3}
"""A quarter of the paper's channels and points and few epochs: about six minutes per network."""

ORIGINAL, ROTATED, REVISED, FLAT = "original", "original, trained with rotations", "REQNN", "REQNN, paper's rules alone"
NETWORKS: dict[str, dict[str, Any]] = {
    ORIGINAL: {"equivariant": False},
    ROTATED: {"equivariant": False, "protocol": "AR"},
    REVISED: {"equivariant": True},
    FLAT: {"equivariant": True, "options": {**ENCODER, "cross_product": False}},
}
"""Name → its settings. All see the same clouds in the same order, one of them rotated; the last for a third of the epochs."""

TOLERANCE = 1e-8  # of the Chamfer distance between orientations, float64


@dataclass(frozen=True)
class Comparison:
    """The results of one network, upright and rotated."""

    name: str
    run: Run
    results: list[ReconstructionEvaluation]

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        from reqnn.revision.report import count_parameters

        return count_parameters(self.run.model)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run": self.name,
            "config": self.run.config.without_folders(),
            "parameters": self.parameters,
            "training": self.run.metrics,
            "results": [result.to_dict() for result in self.results],
        }


@dataclass(kw_only=True)
class Autoencoders(Command):
    """Train autoencoders, ordinary and revised, and compare them on test objects, upright and rotated; half an hour.

    One latent per cloud. One ordinary network is trained with arbitrary rotations. The last network is revised by the paper's
    rules alone, without a cross product, for comparison.
    Ctrl-C writes a checkpoint; the same command resumes.

    Examples:
        python -m experiments autoencoders --data modelnet40 --out results
        python -m experiments autoencoders --data shapenet --epochs 16 --out results
        python -m experiments autoencoders --data digits --epochs 2 --limit 60 --out comparison
    """

    data: str = "modelnet40"
    """The data set: its name in `reqnn data`, or a path."""

    epochs: int = SETTINGS["epochs"]
    """Passes over the training set."""

    copies: int = 2
    """Rotations per test shape."""

    limit: int = 500
    """Number of test shapes, drawn by seed 0."""

    emd: int = 50
    """Shapes for the exact earth mover's distance."""

    runs: str = "runs/autoencoders"
    """The folder for the training runs."""

    out: str = "results"
    """The folder for autoencoder.md, autoencoder.json and the pictures."""

    def run(self) -> int:
        """Train, test, print, draw."""
        from experiments.autoencoders.mirror import mirror_plane
        from experiments.autoencoders.pictures import draw_mixtures, draw_pictures
        from experiments.zoo import register_networks
        from reqnn import data
        from reqnn.commands.eval import subset
        from reqnn.train import evaluate_reconstruction

        register_networks()
        screen, folder = console(), Path(self.out)
        runs = {name: self._train(name) for name in NETWORKS}
        test = data.load(self.data, "test", points=SETTINGS["points"])
        some = subset(test, self.limit, 0)
        with busy(f"{len(some)} shapes, upright and rotated {self.copies} times"):
            found = [
                Comparison(
                    name, run, [evaluate_reconstruction(run.model, some, p, self.copies, emd=self.emd) for p in ("NR", "AR")]
                )
                for name, run in runs.items()
            ]
        with busy("mirror-symmetric objects"):
            mirrored = {name: mirror_plane(run, self.data) for name, run in runs.items()}
        table = _table(found, mirrored, self._settings(some))
        table.print(screen)
        paths = table.write(folder)
        paths.append(draw_pictures(runs, test, folder / f"{table.name}.png"))
        paths.append(draw_mixtures(runs[REVISED], test, folder / f"{table.name}_latents.png"))
        show_written(paths)
        revised = next(comparison for comparison in found if comparison.name == REVISED)
        return OK if revised.results[1].chamfer_change < TOLERANCE else NOT_OK

    def _train(self, name: str) -> Run:
        from reqnn.train import fit, preset

        console().print(f"\n[bold]{name}[/bold]")
        given = {**settings_of(name, self.data, self.epochs), "out": str(Path(self.runs) / run_name(name, self.data))}
        return fit(preset("quick", **given), resume=True)

    def _settings(self, clouds: PointClouds) -> dict[str, Any]:
        return {
            "data": self.data,
            "test shapes": len(clouds),
            "rotations a shape": self.copies,
            "EMD shapes": self.emd,
            "points": SETTINGS["points"],
            "epochs": self.epochs,
            "dtype of the test": "float64",
        }


def run_name(name: str, data: str) -> str:
    """The folder of a network's run."""
    return f"{Path(data).stem}-{'-'.join(name.lower().replace(',', '').replace(chr(39), '').split())}"


def settings_of(name: str, data: str, epochs: int) -> dict[str, Any]:
    """The settings of a network of the comparison."""
    epochs = max(1, epochs // 3) if name == FLAT else epochs  # it only has to show where its clouds lie
    return {**SETTINGS, **NETWORKS[name], "data": data, "epochs": epochs}


def _table(found: list[Comparison], mirrored: dict[str, list[dict[str, Any]]], settings: dict[str, Any]) -> Table:
    from experiments.harness.table import Cell, Table

    rows, records = [], []
    for comparison in found:
        upright, rotated = comparison.results
        share = _mean(one["extent"] for one in mirrored[comparison.name])
        rows.append(
            [
                Cell(comparison.name),
                Cell(f"{comparison.parameters:,}"),
                Cell(f"{upright.chamfer:.4f}"),
                Cell(f"{rotated.chamfer:.4f}"),
                Cell("–" if upright.emd is None else f"{upright.emd:.3f}"),
                Cell("–" if rotated.emd is None else f"{rotated.emd:.3f}"),
                Cell(f"{rotated.chamfer_change:.0e}"),
                Cell(f"{rotated.deviation:.0e}"),
                Cell(f"{100 * share:.0f} %"),
            ]
        )
        records.append({**comparison.to_dict(), "mirror_symmetric": mirrored[comparison.name]})
    columns = ["autoencoder", "parameters", "Chamfer, upright", "rotated", "EMD, upright", "rotated"]
    columns += ["largest Chamfer change", "largest f(Rx) − R f(x)", "off the mirror plane"]
    return Table(
        f"autoencoder{'_shapenet' * (settings['data'] == 'shapenet')}",
        "Autoencoders with one latent per cloud: test objects upright and rotated",
        columns,
        rows,
        records,
        settings,
        [
            "Chamfer: mean squared distance to the nearest point, both ways added; EMD: exact, mean distance. All networks but "
            "one were trained on upright objects only, the last one for a third of the epochs.",
            "Largest Chamfer change: of one object between its orientations. f(Rx) − R f(x): distance between corresponding "
            "points of the rotated object's reconstruction and of the rotated reconstruction.",
            "Off the mirror plane: extent of the reconstruction of exactly mirror-symmetric objects perpendicular to it, "
            "as a share of the object's own.",
            _in_the_plane(mirrored[FLAT]),
            "Sampled clouds have no exact symmetry. Exactly symmetric ones have no unique latent: ties between mirror images "
            "are broken by rounding, differently in each orientation.",
        ],
    )


def _in_the_plane(found: list[dict[str, Any]]) -> str:
    """How far latent and reconstruction leave the mirror plane with the paper's rules alone."""
    latent, flat = (_mean(one[what] for one in found) for what in ("latent", "in_plane"))
    return (
        f"By the paper's rules alone {100 * latent:.0f} % of the latent are off the plane: max-pooling takes one of two mirror "
        f"images, by rounding. With the mean of both, which lies in the plane, {100 * flat:.0f} % of the extent are left; the "
        "REQNN's frame has a cross product and does not depend on rounding."
    )


def _mean(values: Any) -> float:
    numbers = list(values)
    return sum(numbers) / max(1, len(numbers))
