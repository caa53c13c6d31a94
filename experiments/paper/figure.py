"""A figure of the paper, drawn from what was measured: a picture, and the numbers in it as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.files import write_result_file

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Figure:
    """What a figure shows.

    Attributes:
        name: file name without its ending.
        title: what the figure shows.
        draw: writes the picture to a path.
        records: the measured numbers as plain data.
        settings: what the numbers depend on.
        notes: what a reader should know.
    """

    name: str
    title: str
    draw: Callable[[Path], Path]
    records: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def print(self, console: Console | None = None) -> None:
        """Show title and notes in the terminal."""
        from rich.console import Console

        console = console or Console()
        console.print(self.title, style="bold", highlight=False, markup=False)
        for note in self.notes:
            console.print(note, highlight=False, markup=False)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``name.png`` and ``name.json`` into a folder, which is made if it is missing."""
        shown = {name: getattr(self, name) for name in ("name", "title", "records", "notes", "settings")}
        text = write_result_file(Path(folder) / f"{self.name}.json", shown)
        return [self.draw(text.with_suffix(".png")), text]
