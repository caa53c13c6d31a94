"""A figure of the paper: a picture, and its numbers as JSON."""

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
    """A figure; `name` is the file name without suffix, `draw` writes the picture to a path."""

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
        """Write ``name.png`` and ``name.json`` to a folder."""
        shown = {name: getattr(self, name) for name in ("name", "title", "records", "notes", "settings")}
        text = write_result_file(Path(folder) / f"{self.name}.json", shown)
        return [self.draw(text.with_suffix(".png")), text]
