"""`python -m experiments networks`: revise a network of each kind by each rule set, audit it, write docs/networks.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.table import Cell, Table
from reqnn.commands.base import OK, Command, console, show_written

if TYPE_CHECKING:
    from experiments.networks.kinds import Kind

RULES = ("paper", "full", "vector-neurons", "frames")
ORIGINAL = "original"
TOLERANCE = 1e-9
CONSTANT = 1e-4  # outputs that differ by less say nothing
Record = dict[str, Any]

INTRODUCTION = """# Kinds of network

Small networks of the kinds that people publish, each revised by one call, untrained, and audited in float64: how much the
outputs change at most when clouds are rotated, then when their points are reordered, relative to how much they change from
cloud to cloud. The first column of numbers is the network before it is revised. A dash is a refusal; the reasons are below.

Bold numbers are above {tolerance:.0e}. In frames a network depends on the order of the points as much as its original; deep
networks by `vector-neurons` amplify rounding.
"""

NOTES = """`coordinates="auto"` lets submodules that need real coordinates compute in the PCA frame of the cloud, which goes
beyond the paper; `net.report` names them. `rules="frames"` runs any network as it is in the four PCA frames, and keeps trained
weights.
How to write a network so that it can be revised: [Revise your own network](custom_networks.md).
"""


@dataclass(kw_only=True)
class Networks(Command):
    """Revise a network of each kind by each rule set and audit it; writes results/networks.json and docs/networks.md.

    Examples:
        python -m experiments networks
        python -m experiments networks --kinds pointnet --out /tmp/results --page /tmp/networks.md
    """

    kinds: tuple[str, ...] = ()
    """Parts of titles, in any case. Default: all kinds."""
    rotations: int = 8
    """Random rotations in each audit; those of the cube come on top."""
    out: Path = Path("results")
    """The folder for networks.json."""
    page: Path = Path("docs/networks.md")
    """The page."""

    def run(self) -> int:
        """Measure, print, write."""
        from experiments.harness.files import write_page, write_result_file
        from experiments.networks.kinds import KINDS

        chosen = [k for k in KINDS if not self.kinds or any(part.lower() in k.title.lower() for part in self.kinds)]
        records = [record for kind in chosen for record in measure(kind, self.rotations)]
        shown = table(records)
        shown.print(console())
        written = [
            write_result_file(self.out / "networks.json", {"command": "python -m experiments networks", "rows": records})
        ]
        show_written([*written, write_page(self.page, page(shown, records))])
        return OK


def measure(kind: Kind, rotations: int) -> list[Record]:
    """The original, and its revision by each rule set: errors of the outputs, or why it is refused."""
    import torch

    import reqnn
    from reqnn.errors import ReqnnError

    points, found = kind.points(), []
    for rules in (ORIGINAL, *RULES):
        record: Record = {"kind": kind.title, "rules": rules}
        torch.manual_seed(0)
        net = kind.build()
        try:
            if rules != ORIGINAL:
                record["call"] = call(kind.options(rules))
                net = reqnn.revise(net, points, **kind.options(rules))
                record["extensions"] = net.report.extensions
            report = reqnn.audit(net, points, rotations=rotations, permutations=4, modes=("eval",))
            output = report.rows[-1]
            record |= {"rotation_error": output.rotation_error, "permutation_error": output.permutation_error}
            record["spread"] = output.spread
            if output.spread < CONSTANT:
                record["refused"] = (
                    f"untrained, outputs of different clouds differ by {output.spread:.0e} of their size only, as the longest "
                    'feature of a layer is that of the farthest point: `c=0.1`, `rules="full"`, or features of neighbours'
                )
        except ReqnnError as error:
            record["refused"] = one_line(error)
        found.append(record)
    return found


def call(options: dict[str, Any]) -> str:
    """The call as a user writes it."""
    return f"reqnn.revise(model, points, {', '.join(f'{key}={value!r}' for key, value in options.items())})"


def one_line(error: Exception) -> str:
    """Why a network is refused."""
    operation, layer = getattr(error, "operation", ""), getattr(error, "layer", "")
    reason = str(getattr(error, "reason", error)).splitlines()[0]
    return (f"`{operation}`" + (f" in `{layer}`" if layer else "") + ": " if operation else "") + reason.split(". ")[0]


def table(records: list[Record]) -> Table:
    """A row per kind, a column per rule set."""
    kinds = list(dict.fromkeys(record["kind"] for record in records))
    by_place = {(record["kind"], record["rules"]): record for record in records}
    rows = [[Cell(kind), *(_cell(by_place[kind, rules]) for rules in (ORIGINAL, *RULES))] for kind in kinds]
    return Table("networks", "Kinds of network: errors under rotations, orders", ["network", ORIGINAL, *RULES], rows, records)


def _cell(record: Record) -> Cell:
    if "refused" in record:
        return Cell("–")
    bold = record["rules"] != ORIGINAL
    errors = [record[error] / record["spread"] for error in ("rotation_error", "permutation_error")]
    texts = ["0" if error == 0 else f"{error:.0e}" for error in errors]
    return Cell(", ".join(f"**{t}**" if bold and e > TOLERANCE else t for t, e in zip(texts, errors, strict=True)))


def page(shown: Table, records: list[Record]) -> str:
    """docs/networks.md."""
    calls = {r["kind"]: r["call"] for r in records if r["rules"] == "frames"}
    calls |= {r["kind"]: r["call"] for r in records if r["rules"] == "full" and "refused" not in r}
    lines = [INTRODUCTION.format(tolerance=TOLERANCE), *shown.to_markdown(level=2).splitlines()[2:], "", "## The calls", ""]
    lines += ['`rules` is `"paper"`, `"full"` or `"vector-neurons"`; `"frames"` needs no other argument.', ""]
    lines += ["| network | call |", "|---|---|", *(f"| {kind} | `{text}` |" for kind, text in calls.items()), ""]
    refused = [record for record in records if "refused" in record]
    if refused:
        lines += [
            "## Refused, or hardly dependent on the cloud",
            "",
            *(f"- {r['kind']}, `{r['rules']}`: {r['refused']}" for r in refused),
            "",
        ]
    return "\n".join([*lines, NOTES, "Made by `python -m experiments networks`.", shown.stamp(), ""])
