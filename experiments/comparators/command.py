"""`python -m experiments comparators`: audit the networks of Table 5, write docs/comparators.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from reqnn.commands.base import OK, Command, busy, console, show_written


@dataclass(kw_only=True)
class Comparators(Command):
    """Measure what the networks that Table 5 compares keep under rotations, and where errors arise; two minutes.

    Examples:
        python -m experiments comparators
        python -m experiments comparators --out /tmp/results --page /tmp/comparators.md
    """

    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for results: comparators.json and .md."""
    page: Annotated[str, tyro.conf.arg(metavar="FILE")] = "docs/comparators.md"
    """The page of the documentation."""
    shapes: int = 40
    """Test shapes of ModelNet40, or scanned objects if it is not on this machine."""

    def run(self) -> int:
        """Measure, print, write."""
        from experiments.comparators.page import page, tables
        from experiments.harness.files import write_page, write_result_file

        with busy("auditing the networks of Table 5"):
            found = tables(self.shapes)
        for table in found:
            table.print(console())
        content = {table.name: {"rows": table.records, "notes": table.notes} for table in found}
        text = page(found)
        written = [write_result_file(Path(self.out) / "comparators.json", content)]
        written += [write_page(path, text) for path in (Path(self.out) / "comparators.md", Path(self.page))]
        show_written(written)
        return OK
