"""A table of measured values beside printed ones: to the terminal, to Markdown, to JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.provenance import provenance

if TYPE_CHECKING:
    from rich.console import Console

MARK = "≠"


@dataclass(frozen=True)
class Cell:
    """One measured value as text, and the paper's where it prints one.

    Shown as the value alone where both agree, as ``value ≠ printed`` where they differ.
    """

    text: str
    printed: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the paper prints something else."""
        return self.printed is not None and self.printed != self.text

    def __str__(self) -> str:
        return f"{self.text} {MARK} {self.printed or 'nothing'}" if self.differs else self.text


@dataclass
class Table:
    """Rows of cells under a head.

    Attributes:
        name: file name without its ending.
        title: what the table shows.
        columns: the head.
        rows: the body; the first cell names the row.
        records: the same rows as plain data with unrounded numbers, for JSON.
        settings: what the numbers depend on.
        notes: what a reader should know.
    """

    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    records: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def differences(self) -> list[str]:
        """Each cell that differs from the paper, as ``row, column: measured ≠ printed``."""
        return [
            f"{row[0].text}, {column}: {cell}"
            for row in self.rows
            for column, cell in zip(self.columns, row, strict=True)
            if cell.differs
        ]

    def footer(self) -> list[str]:
        """How many values are as the paper prints them, and the notes."""
        compared = sum(cell.printed is not None for row in self.rows for cell in row)
        if not compared:
            return self.notes
        differing = len(self.differences)
        verdict = f"{compared - differing} of {compared} values as the paper prints them"
        return [verdict + (f"; {differing} marked {MARK} with the paper's beside it" if differing else ""), *self.notes]

    def print(self, console: Console | None = None) -> None:
        """Show the table in the terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(title=self.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        for position, column in enumerate(self.columns):
            widest = max((len(str(row[position])) for row in self.rows), default=1)  # numbers are never cut, heads may wrap
            shown.add_column(column, justify="right" if position else "left", overflow="fold", min_width=min(widest, 10))
        for row in self.rows:
            shown.add_row(*(Text(str(cell), style="bold red" if cell.differs else "") for cell in row))
        console = console or Console()
        console.print(shown)
        for line in self.footer():
            console.print(line, highlight=False, markup=False)

    def to_markdown(self, level: int = 1) -> str:
        """The table as GitHub Markdown; differing values are bold. Below the first level, as a part of a page: no stamp."""
        lines = [f"{'#' * level} {self.title}", "", _line(self.columns), _line(["---", *["---:"] * (len(self.columns) - 1)])]
        lines += [_line([f"**{cell}**" if cell.differs else str(cell) for cell in row]) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.footer())]
        return "\n".join([*lines, "", self.stamp() if level == 1 else ""]).strip() + "\n"

    def stamp(self) -> str:
        """Versions, settings and commit in small print."""
        made = provenance()
        stamp = [f"reqnn {made['versions']['reqnn']}", f"torch {made['versions'].get('torch', '?')}"]
        stamp += [f"{key} {value}" for key, value in self.settings.items()]
        stamp += [f"commit {made['commit']}"] if made["commit"] else []
        return f"<sub>{', '.join(stamp)}</sub>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: rows, differences, settings, versions."""
        return {
            "name": self.name,
            "title": self.title,
            "rows": self.records,
            "differences": self.differences,
            "notes": self.notes,
            "settings": self.settings,
            **provenance(),
        }

    def to_json(self) -> str:
        """The table as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``name.md`` and ``name.json`` into a folder, which is made where it is missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {".md": self.to_markdown(), ".json": self.to_json() + "\n"}
        paths = []
        for ending, text in texts.items():
            path = folder / f"{self.name}{ending}"
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return paths


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
