"""`reqnn demo`: the whole idea in two minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reqnn.commands.base import OK, Command, busy, console


@dataclass(kw_only=True)
class Demo(Command):
    """Revise two small networks, audit them before and after, and draw what happens; no download, no GPU, about a minute.

    Examples:
        reqnn demo --out demo
    """

    out: str = "demo"
    """The folder for the table and the two pictures."""

    def run(self) -> int:
        """Measure, print one table, write it and the pictures."""
        raise NotImplementedError
