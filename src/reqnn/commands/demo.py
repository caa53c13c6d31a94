"""`reqnn demo`: the point of the project in five minutes, on data that comes with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import NOT_OK, OK, Command, busy, console

if TYPE_CHECKING:
    from reqnn.auditing import AuditReport
    from reqnn.data.dataset import PointClouds
    from reqnn.table import Table
    from reqnn.train import Run
    from reqnn.train.evaluation import Evaluation

SETTINGS: dict[str, Any] = {
    "model": "dgcnn",
    "options": {"width": 0.25, "k": 16, "dropout": 0.0},
    "data": "digits",
    "points": 256,
    "epochs": 10,
    "batch": 16,
    "smoothing": 0.0,
    "rule_options": {},
    "scale": 0.0,
    "jitter": 0.0,
}
"""A quarter of the channels and of the points of the paper's network, so that it trains in a minute or two."""

NETWORKS: dict[str, dict[str, Any]] = {
    "original": {"equivariant": False},
    "original, trained with vertical rotations": {"equivariant": False, "protocol": "vertical"},
    "REQNN": {"equivariant": True, "rule_options": {"c": 0.3}},
}
"""Name → what is different about it. All three see the same clouds, in the same order. c is the constant of the ReLU rule, 1 in
the paper; a smaller one learns sooner."""

ORIGINAL, TURNED, REVISED = NETWORKS
COPIES, ANGLES = 5, 7
AUDITED, ROTATIONS, PERMUTATIONS = 4, 4, 4


@dataclass(kw_only=True)
class Demo(Command):
    """Train a network, the same with vertical rotations, and its revision, and turn the objects: what does each recognise?

    About five minutes. The data are scikit-learn's handwritten digits, raised to clouds in space: no download, no GPU. Runs
    that are in the folder already are taken up where they are; delete it to start anew.

    Examples:
        reqnn demo --out demo
    """

    out: str = "demo"
    """The folder for the runs, the table and the pictures."""

    def run(self) -> int:
        """Train, test, audit; print one table, write it and the pictures."""
        from reqnn import data

        screen, folder = console(), Path(self.out)
        test = data.load("digits", "test", points=SETTINGS["points"])
        runs = {name: self._train(name, folder) for name in NETWORKS}
        results = {name: self._evaluate(name, run, test) for name, run in runs.items()}
        audits = {name: _audit(run, test) for name, run in runs.items()}
        table = _table(runs, results, audits)
        screen.print()
        table.print(screen)
        for path in [*table.write(folder), *self._draw(runs, audits, test, folder)]:
            screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
        upright, turned = (result.accuracy for result in results[REVISED])
        return OK if audits[REVISED].ok and abs(upright - turned) < 0.01 else NOT_OK

    def _train(self, name: str, folder: Path) -> Run:
        from reqnn.train import fit, preset

        out = folder / "runs" / name.replace(",", "").replace(" ", "-")
        console().print(f"\n[bold]{name}[/bold]")
        return fit(preset("quick", **{**SETTINGS, **NETWORKS[name], "out": str(out)}), resume=True)

    def _evaluate(self, name: str, run: Run, test: PointClouds) -> list[Evaluation]:
        from reqnn.train.evaluation import evaluate

        with busy(f"{name}: testing upright and in {COPIES} orientations each"):
            return [evaluate(run.model, test, protocol, COPIES) for protocol in ("NR", "AR")]

    def _draw(self, runs: dict[str, Run], audits: dict[str, AuditReport], test: PointClouds, folder: Path) -> list[Path]:
        from reqnn.commands.pictures import draw_answers, draw_errors, draw_features
        from reqnn.data import digits
        from reqnn.train.evaluation import accuracy_by_angle
        from reqnn.train.pictures import draw_angles

        angles = [180 * i / (ANGLES - 1) for i in range(ANGLES)]
        with busy("drawing"):
            curves = {name: accuracy_by_angle(run.model, test, angles) for name, run in runs.items()}
            networks = {name: run.model for name, run in runs.items()}
            denser = digits("test", 512, limit=4)[0]
            return [
                draw_answers(networks, test, folder / "answers.png"),
                draw_angles(angles, curves, [REVISED], 1 / len(test.classes), folder / "angles.png"),
                draw_errors({"DGCNN": {"original": audits[ORIGINAL], "REQNN": audits[REVISED]}}, folder / "rotation_error.png"),
                draw_features(networks[ORIGINAL], networks[REVISED], denser, folder / "features.png"),
            ]


def _audit(run: Run, test: PointClouds) -> AuditReport:
    """Every layer measured by itself, in float64, with the trained weights."""
    from reqnn.auditing import audit
    from reqnn.rules import get_rules
    from reqnn.zoo import create_model

    config = run.config
    every_layer = get_rules("paper").with_options(fused=False, **config.rule_options)
    net = create_model(config.model, config.equivariant, len(test.classes), rules=every_layer, **config.options)
    net.load_state_dict(run.model.state_dict())
    with busy("auditing every layer"):
        return audit(net, test.points[:AUDITED], rotations=ROTATIONS, permutations=PERMUTATIONS, vector_axis=-1)


def _table(runs: dict[str, Run], results: dict[str, list[Evaluation]], audits: dict[str, AuditReport]) -> Table:
    from reqnn.table import Cell, Table
    from reqnn.train.weights import count_parameters as parameters

    records = []
    for name, (upright, turned) in results.items():
        records.append(
            {
                "network": name,
                "upright": upright.accuracy,
                "rotated": turned.accuracy,
                "kept": 1 - turned.inconsistent,
                "rotation_error": audits[name].rotation_error,
                "audit": audits[name].ok,
                "parameters": parameters(runs[name].model),
                "training_seconds": runs[name].metrics["last"]["seconds"],
            }
        )
    rows = [
        [
            Cell(record["network"]),
            Cell(f"{100 * record['upright']:.1f} %"),
            Cell(f"{100 * record['rotated']:.1f} %"),
            Cell(f"{100 * record['kept']:.1f} %"),
            Cell(f"{record['rotation_error']:.0e}"),
            Cell("passes" if record["audit"] else "fails"),
            Cell(f"{record['parameters']:,}"),
            Cell(f"{record['training_seconds']:.0f} s"),
        ]
        for record in records
    ]
    columns = ["DGCNN", "upright", "rotated", "same answer", "rotation error", "audit", "parameters", "training"]
    settings = {**SETTINGS, "copies": COPIES, "audited clouds": AUDITED, "rotations": ROTATIONS, "permutations": PERMUTATIONS}
    return Table(
        "demo",
        "Handwritten digits in space: what a network recognises when they are turned",
        columns,
        rows,
        records,
        settings,
        [
            "Accuracy on the 360 test digits as they come, and each in five arbitrary orientations; none of the networks has "
            "seen a digit turned arbitrarily.",
            "Same answer: digits that get the same answer in all five. A 6 upside down is a 9, whoever looks.",
            "Rotation error: the largest of any layer under random and cube rotations, relative, in float64.",
            "The REQNN's ReLU rule has c = 0.3, which learns sooner than the paper's 1.",
        ],
    )
