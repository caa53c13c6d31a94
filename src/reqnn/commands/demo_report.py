"""What the demo found, as a table: on the screen, as Markdown and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reqnn.commands.base import write_json
from reqnn.provenance import provenance

TITLE = "Which of 38 scanned household objects is it? Trained upright, then rotated"
NUMBERS = ("upright", "rotated", "cut and rotated", "answers kept", "time per cloud")


@dataclass(frozen=True)
class Row:
    """One network.

    Attributes:
        upright, rotated, cut: the share of right answers on new samplings upright, in arbitrary orientations, and with a fifth
            of the surface cut away in arbitrary orientations.
        kept: the share of objects that get the same answer in all orientations.
        milliseconds: time per cloud.
        relative_time: the same relative to the first network of the table.
        seconds: how long the training took.
        audit: what the audit says.
    """

    network: str
    upright: float
    rotated: float
    cut: float
    kept: float
    milliseconds: float
    relative_time: float
    seconds: float
    rotation_error: float
    audit_ok: bool
    audit: str

    def cells(self) -> list[str]:
        """The row as text, in the order of `NUMBERS`."""
        shares = (self.upright, self.rotated, self.cut, self.kept)
        return [*(f"{100 * share:.1f} %" for share in shares), f"{self.milliseconds:.1f} ms ({self.relative_time:.2f} ×)"]


def print_rows(rows: list[Row], screen: Any) -> None:
    """Show the table and the line of each audit."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=TITLE, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("network")
    for name in NUMBERS:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.network, *row.cells())
    screen.print(table)
    for row in rows:
        colour = "green" if row.audit_ok else "red"
        screen.print(f"[{colour}]{row.audit}[/{colour}]", highlight=False, soft_wrap=True)


def write_rows(rows: list[Row], settings: dict[str, Any], notes: list[str], folder: Path) -> list[Path]:
    """Write demo.md and demo.json."""
    made = provenance()
    head = ["network", *NUMBERS]
    lines = [f"# {TITLE}", "", _line(head), _line(["---"] + ["---:"] * len(NUMBERS))]
    lines += [_line([row.network, *row.cells()]) for row in rows]
    lines += ["", *(f"- {row.audit}" for row in rows), *(f"- {note}" for note in notes), ""]
    lines += [
        f"<sub>reqnn {made['versions']['reqnn']}, torch {made['versions'].get('torch', '?')}, settings {settings}</sub>",
        "",
    ]
    markdown = folder / "demo.md"
    markdown.write_text("\n".join(lines), encoding="utf-8")
    write_json({"rows": [asdict(row) for row in rows], "notes": notes, "settings": settings, **made}, str(folder / "demo.json"))
    return [markdown, folder / "demo.json"]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
