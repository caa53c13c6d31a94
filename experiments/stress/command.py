"""`python -m experiments stress`: damaged files, killed trainings, rotated shapes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from reqnn.commands.base import NOT_OK, OK, Command, console, optional
from reqnn.provenance import provenance

GOALS = {
    "damaged files": "≥ 10,000 files, 0 tracebacks, 0 crashes, 0 wrong contents accepted",
    "kills": "≥ 100 kills, 0 losses, the weights of an uninterrupted run",
    "rotated shapes": "≥ 100,000 rotated shapes, 0 answers changed in float64",
}


@dataclass(kw_only=True)
class Stress(Command):
    """Measure reliability: damaged files and tracebacks, kills and losses, rotated shapes and changed answers.

    Only the parts with a number are measured; the figures of the others are kept. Rotated shapes are counted from run to run,
    so that they can grow over days. The exit code is 1 if a file, a kill or a rotation went wrong.

    Examples:
        python -m experiments stress --files 12000 --kills 120
        python -m experiments stress --rotated 100000 --minutes 60
    """

    files: int = 0
    """Damaged files to load, shared by all loaders."""
    kills: int = 0
    """How often to kill and resume a training."""
    rotated: int = 0
    """Rotated shapes that each network is to have tried in all."""
    minutes: Annotated[float | None, optional("MINUTES")] = None
    """Stop counting rotated shapes after these."""
    weights: tuple[str, ...] = ("dgcnn.full.modelnet40", "dgcnn.paper.modelnet40")
    """The weights that classify the rotated shapes."""
    votes: Annotated[int | None, optional("VOTES")] = None
    """Samples of a rotated shape that vote, instead of those of the weights: one is faster."""
    data: str = "modelnet40"
    """The data set of the rotated shapes."""
    seed: int = 0
    """Of the damage and of the times of kills."""
    out: Path = Path("results")
    """The folder of stress.json and stress.md."""

    def run(self) -> int:
        """Measure, write, print."""
        import torch

        from experiments.stress.damage import damaged_files
        from experiments.stress.kills import kills
        from experiments.stress.rotations import rotations

        torch.set_num_threads(1)  # processes are forked: threads of this one would be missing there
        file = self.out / "stress.json"
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
        found: dict[str, dict[str, Any]] = {row.pop("what"): row for row in rows}

        def save(what: str, record: dict[str, Any]) -> None:
            found[what] = {**record, "commit": provenance()["commit"]}
            _table(found).write(self.out)

        if self.files:
            save("damaged files", damaged_files(self.files, self.seed))
        if self.kills:
            save("kills", kills(self.kills, self.seed))
        if self.rotated:
            before = found.get("rotated shapes", {})
            where = (self.weights, self.data, self.votes, self.minutes)
            save("rotated shapes", rotations(before, self.rotated, *where, lambda one: save("rotated shapes", one)))
        _table(found).print(console())
        return NOT_OK if any(_wrong(what, one) for what, one in found.items()) else OK


def _wrong(what: str, one: dict[str, Any]) -> int:
    """How much of a part went wrong."""
    names = {"damaged files": ("traceback", "crash", "changed"), "kills": ("losses", "different_weights")}
    return sum(one.get(name, 0) for name in names.get(what, ("changed_in_float64",)))


def _table(found: dict[str, dict[str, Any]]) -> Any:
    from experiments.harness.table import Cell, Table

    shown = {
        "damaged files": "{files:,} files of {kinds} kinds: {refused:,} refused by name, {loaded:,} loaded, {traceback} "
        "tracebacks, {crash} crashes, {changed} wrong contents accepted; {megabytes:.0f} MB at most",
        "kills": "{kills:,} kills in {trainings} trainings, {during_a_write} while a checkpoint was written: {losses} losses, "
        "{different_weights} trainings with other weights than uninterrupted",
        "rotated shapes": "{tried:,} rotated shapes ({shares}): {changed} answers changed in float32, {by_a_choice} of these "
        "since rounding chose other neighbours or samples, the others between two classes equally likely; {changed_in_float64} "
        "in float64; largest change of a probability {largest_change:.1e}",
    }
    rows = []
    for what, goal in GOALS.items():
        one = {"traceback": 0, "crash": 0, "changed": 0, **found.get(what, {})}
        shares = (
            f"{name}: {net['tried']:,} of {net['data']}, {net['changed']} changed"
            for name, net in one.get("networks", {}).items()
        )
        more = {"kinds": len(one.get("by_kind", ())), "megabytes": one.get("memory", 0) / 1e6, "shares": "; ".join(shares)}
        figure = shown[what].format(**one, **more) if what in found else "not measured yet"
        rows.append([Cell(what), Cell(goal), Cell(figure)])
    records = [{"what": what, **one} for what, one in found.items()]
    return Table("stress", "Reliability", ["", "goal", "measured"], rows, records)
