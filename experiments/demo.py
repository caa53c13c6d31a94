"""`python -m experiments demo`: the point of the project in five minutes, on scanned objects that ship with it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.commands.base import NOT_OK, OK, Command, busy, console, show_written, write_json

if TYPE_CHECKING:
    from reqnn.auditing import AuditReport
    from reqnn.data.dataset import PointClouds
    from reqnn.train import Run

SETTINGS: dict[str, Any] = {
    "model": "dgcnn",
    "options": {"width": 0.25, "k": 16, "sample": 128, "dropout": 0.0},
    "data": "scanned-cut",
    "points": 512,
    "sampled_from": 1024,
    "epochs": 4,
    "batch": 19,
    "optimizer": "muon",
    "scale": 0.0,
    "jitter": 0.0,
}
"""A quarter of the channels of DGCNN, 128 farthest of 512 points: each network trains in about a minute."""

ORIGINAL, ROTATED, PAPER, FULL = "DGCNN", "DGCNN, trained with rotations", "REQNN, rules paper", "REQNN, rules full"
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    ORIGINAL: ("dgcnn", {}),
    ROTATED: ("dgcnn-rotations", {"protocol": "AR"}),
    PAPER: ("reqnn-paper", {"equivariant": True, "rules": "paper"}),
    FULL: ("reqnn-full", {"equivariant": True, "rules": "full"}),
}
"""Name → the folder of its run, and what is different about it. All see the same clouds, in the same order."""

COPIES, ROUNDS, TIMED = 3, 5, 38
AUDITED, ROTATIONS, PERMUTATIONS = 4, 4, 4
SHOWN, FRONT = ("teapot", "lion", "hammer", "coffee mug"), ("teapot", "lion")

TITLE = "Which of 38 scanned household objects is it? Trained upright, then rotated"
HEAD = ("network", "upright", "rotated", "cut and rotated", "answers kept", "time per cloud")
NOTES = [
    "Right answers on 190 new samplings of the objects, upright; each in three arbitrary orientations; and so with 20 % of the "
    "surface cut away by a plane. Every sampling has noise, 1 % of the object's radius.",
    "All but the second network have seen the objects upright only, with up to 20 % cut away.",
    "Answers kept: objects that get the same answer in all three orientations.",
    "One seed, and for all the same few epochs and the same optimizer, chosen for the time they take: the network trained with "
    "rotations and the one by `paper` have not converged.",
    "The first two rows time the same network: they differ by the noise of the timing.",
]
NEXT = {
    "reqnn eval {out}/runs/dgcnn {out}/runs/reqnn-full": "accuracy against the angle of rotation; which objects are confused",
    "reqnn train --model pointnet2 --equivariant --rules full --optimizer muon --epochs 5 --data scanned": "another network",
    "reqnn revise path/to/network.py:Network --rules full": "your own network",
}
"""Command → what it is for."""

Row = dict[str, Any]
"""One network: shares of right answers, time per cloud, and its audit; a row of demo.json."""


@dataclass(kw_only=True)
class Demo(Command):
    """Which of 38 scanned household objects is it? Train a network and its revisions upright, then rotate the objects.

    About five minutes on two cores; no download, no GPU. Runs that are in the folder already are reused; delete it to start
    again.

    Examples:
        python -m experiments demo --out demo
    """

    out: str = "demo"
    """The folder for the runs, the table and the pictures."""

    def run(self) -> int:
        """Train, test, audit; print one table, write it and the pictures; say what to do next."""
        from reqnn import data
        from reqnn.extras import need

        need("matplotlib")  # for the pictures at the end: say it before the training
        screen, folder = console(), Path(self.out)
        whole, cut = (data.load(name, "test", points=SETTINGS["points"]) for name in ("scanned", "scanned-cut"))
        runs = {name: _train(name, folder) for name in NETWORKS}
        rows = _rows(runs, whole, cut)
        written = [*_write(rows, folder), *_draw(runs, whole, folder)]
        _print(rows, screen)
        show_written(written)
        screen.print("\n[bold]What next[/bold]")
        for command, what in NEXT.items():
            screen.print(f"  {command.format(out=self.out)}\n      [dim]{what}[/dim]", highlight=False, soft_wrap=True)
        return exit_code(rows)


def exit_code(rows: list[Row]) -> int:
    """Whether all revised networks pass their audit and recognise rotated objects as they do upright ones."""
    revised = [row for row in rows if NETWORKS[row["network"]][1].get("equivariant")]
    return OK if all(row["audit_ok"] and abs(row["upright"] - row["rotated"]) < 0.01 for row in revised) else NOT_OK


def _train(name: str, folder: Path) -> Run:
    from reqnn.train import fit, preset

    place, different = NETWORKS[name]
    console().print(f"\n[bold]{name}[/bold]")
    return fit(preset("quick", **{**SETTINGS, **different, "out": str(folder / "runs" / place)}), resume=True)


def _rows(runs: dict[str, Run], whole: PointClouds, cut: PointClouds) -> list[Row]:
    from reqnn.train.evaluation import evaluate

    rows, times = [], _milliseconds(runs, whole)
    for name, run in runs.items():
        with busy(f"{name}: testing upright and in {COPIES} orientations each"):
            upright, rotated = (evaluate(run.model, whole, protocol, COPIES) for protocol in ("NR", "AR"))
            partial = evaluate(run.model, cut, "AR", COPIES)
        audit = _audit(name, run, whole)
        passes = "the audit passes; largest rotation error of any layer"
        verdict = passes if audit.ok else f"the audit fails, first at layer '{audit.first_rotation_failure}'; largest error"
        row = {
            "network": name,
            "upright": upright.accuracy,
            "rotated": rotated.accuracy,
            "cut": partial.accuracy,
            "kept": 1 - rotated.inconsistent,
            "milliseconds": times[name],
            "relative_time": times[name] / times[ORIGINAL],
            "seconds": run.metrics["last"]["seconds"],
            "rotation_error": audit.rotation_error,
            "audit_ok": audit.ok,
            "audit": f"{name}: {verdict} {audit.rotation_error:.0e} (float64)",
        }
        rows.append(row)
    return rows


def _milliseconds(runs: dict[str, Run], clouds: PointClouds) -> dict[str, float]:
    """Time per cloud of each network, the best of some rounds over all networks."""
    from reqnn.train.prediction import predict

    best, some = dict.fromkeys(runs, math.inf), clouds.points[:TIMED]
    with busy("timing"):
        for _ in range(ROUNDS):
            for name, run in runs.items():
                begun = time.perf_counter()
                predict(run.model, some)
                best[name] = min(best[name], 1000 * (time.perf_counter() - begun) / len(some))
    return best


def _audit(name: str, run: Run, test: PointClouds) -> AuditReport:
    """Every layer on ordinary tensors, in float64, with the trained weights."""
    from reqnn.auditing import audit
    from reqnn.rules import get_rules
    from reqnn.zoo import create_model

    config = run.config
    every_layer = get_rules(config.rules).with_options(fused=False, **config.rule_options)
    net = create_model(config.model, config.equivariant, len(test.classes), rules=every_layer, **config.options)
    net.load_state_dict(run.model.state_dict())
    with busy(f"{name}: auditing every layer"):
        return audit(net, test.points[:AUDITED], rotations=ROTATIONS, permutations=PERMUTATIONS, vector_axis=-1)


def _cells(row: Row) -> list[str]:
    shares = [f"{100 * row[name]:.1f} %" for name in ("upright", "rotated", "cut", "kept")]
    return [row["network"], *shares, f"{row['milliseconds']:.1f} ms ({row['relative_time']:.2f} ×)"]


def _print(rows: list[Row], screen: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=f"\n{TITLE}", title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in HEAD:
        table.add_column(name, justify="left" if name == "network" else "right")
    for row in rows:
        table.add_row(*_cells(row))
    screen.print(table)
    for row in rows:
        screen.print(row["audit"], style="green" if row["audit_ok"] else "red", highlight=False, soft_wrap=True)


def _write(rows: list[Row], folder: Path) -> list[Path]:
    """Write demo.md and demo.json."""
    from reqnn.provenance import provenance

    made = provenance()
    settings = {**SETTINGS, "copies": COPIES, "rotations": ROTATIONS, "permutations": PERMUTATIONS}
    table = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *(_cells(row) for row in rows)]
    lines = [f"# {TITLE}", "", *(f"| {' | '.join(cells)} |" for cells in table), ""]
    lines += [f"- {note}" for note in (*(row["audit"] for row in rows), *NOTES)]
    versions = f"reqnn {made['versions']['reqnn']}, torch {made['versions'].get('torch', '?')}"
    paths = [folder / "demo.md", folder / "demo.json"]
    paths[0].write_text("\n".join([*lines, "", f"<sub>{versions}, settings {settings}</sub>", ""]), encoding="utf-8")
    write_json({"rows": rows, "notes": NOTES, "settings": settings, **made}, paths[1])
    return paths


def _draw(runs: dict[str, Run], test: PointClouds, folder: Path) -> list[Path]:
    from experiments.pictures.answers import draw_answers

    networks = {"DGCNN": runs[ORIGINAL].model, "REQNN of it": runs[FULL].model}
    title = "Trained on upright objects, then rotated: what each network calls it"
    with busy("drawing"):
        pictures = {"front.png": FRONT, "answers.png": SHOWN}
        return [draw_answers(networks, test, objects, folder / name, title) for name, objects in pictures.items()]
