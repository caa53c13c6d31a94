"""`reqnn paper`: the paper's tables, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console

if TYPE_CHECKING:
    from reqnn.paper.table import Table


@dataclass(kw_only=True)
class Paper(Command):
    """Measure a table of the paper and show it beside the printed values; differences are marked ≠.

    The tables:
        table1: rotation equivariance and permutation invariance of each operation, before and after revision (seconds)
        table2: parameters, multiply-adds and FLOPs of the four networks and their REQNNs (half a minute)
        table3: which network contains which operation (seconds)

    Examples:
        reqnn paper table1
        reqnn paper table2 --out results
    """

    table: tyro.conf.Positional[Literal["table1", "table2", "table3", "all"]]
    """Which table; all of them with "all"."""

    out: Annotated[str | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """A folder to write the tables to, as Markdown and JSON."""

    def run(self) -> int:
        """Measure, print, write."""
        from reqnn import paper

        tables: dict[str, Callable[[], Table]] = {"table1": paper.table1, "table2": paper.table2, "table3": paper.table3}
        screen = console()
        for name in tables if self.table == "all" else [self.table]:
            with busy(f"measuring {name}"):
                table = tables[name]()
            table.print(screen)
            if self.out is not None:
                for path in table.write(self.out):
                    screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
        return OK
