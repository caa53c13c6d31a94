"""`reqnn data`: list and inspect data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from reqnn.commands.base import OK, Command, busy, console, optional, write_json

ROOT = "The folder that holds the data sets. Default: $REQNN_DATA, else the user's cache folder."
Root = Annotated[str | None, optional("DIR", help=ROOT)]


@dataclass(kw_only=True)
class ListSets(Command):
    """List the named data sets, and which of them are on this machine."""

    root: Root = None

    def run(self) -> int:
        """Print a table."""
        from rich.table import Table

        from reqnn.data.loading import data_root
        from reqnn.data.sets import SETS

        base = data_root(self.root)
        table = Table("name", "what it is", "where")
        for name, known in SETS.items():
            found = next((folder for folder in known.folders if (base / folder).exists()), "not here")
            table.add_row(name, known.summary, "in the package" if known.embedded else found)
        console().print(table)
        print(f"Data root: {base}. Any folder or file with a known layout can be used, too.")
        return OK


@dataclass(kw_only=True)
class Info(Command):
    """Load a data set and show its contents: clouds per class, points, vertical axis, duplicates, tied distances."""

    data: tyro.conf.Positional[str]
    """A name from `reqnn data list`, or a path."""
    split: tuple[str, ...] = ("train", "test")
    """Which splits; "all" for a folder or file without splits."""
    points: int = 1024
    """Points per cloud."""
    variant: Annotated[str | None, optional("NAME")] = None
    """Which version, if a folder holds several."""
    root: Root = None
    json: Annotated[str | None, optional("FILE")] = None
    """Also write the figures as JSON; "-" for stdout, instead of the table."""

    def run(self) -> int:
        """Load, count, print."""
        from rich.table import Table

        from reqnn.data.loading import load
        from reqnn.data.summary import shared_clouds, summarise

        with busy("loading"):
            sets = [load(self.data, split, self.points, self.root, variant=self.variant) for split in self.split]
            found = [summarise(one) for one in sets]
            shared = shared_clouds(sets[0], sets[1]) if len(sets) == 2 else None
        if self.json is not None:
            write_json({"data": self.data, "splits": found, "shared": shared}, self.json)
        if self.json == "-":
            return OK
        table = Table("", *(one["split"] for one in found), title=sets[0].name, title_justify="left")
        shown = {
            "clouds": "{clouds}",
            "points per cloud": "{points}",
            "vertical axis": "{up}",
            "normals": "{normals}",
            "parts": "{parts}",
            "radius": "{radius[0]:g} to {radius[1]:g}",
            "duplicates of another cloud": "{duplicates}",
            "points with tied neighbours": "{tied:.1%}",
            "clouds with a point twice": "{coincident} of {looked_at}",
        }
        for label, text in shown.items():
            table.add_row(label, *(text.format(**one) for one in found))
        table.add_section()
        for name in sets[0].classes:
            table.add_row(name, *(str(one["counts"].get(name, 0)) for one in found))
        console().print(table)
        if shared:
            print(f"{shared} clouds of '{self.split[1]}' are also in '{self.split[0]}'")
        return OK


@dataclass(kw_only=True)
class Data(Command):
    """List and inspect data sets; from a clone, also download MNIST and build 3D MNIST (`reqnn data download`, `data make`).

    Examples:
        reqnn data list
        reqnn data info modelnet40
        reqnn data info path/to/meshes --split all
    """

    action: Annotated[
        Annotated[ListSets, tyro.conf.subcommand("list")] | Annotated[Info, tyro.conf.subcommand("info")],
        tyro.conf.OmitArgPrefixes,
        tyro.conf.OmitSubcommandPrefixes,
    ]

    def __post_init__(self) -> None:
        self.debug = self.debug or self.action.debug  # `--debug` may come before or after the action

    def run(self) -> int:
        """Run the action."""
        return self.action.run()
