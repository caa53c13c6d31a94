"""`python -m experiments bench-align`: alignment on a data set, compared with PCA and ICP."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from reqnn.commands.base import NOT_OK, OK, Command, console, make_folder, optional, show_written
from reqnn.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from reqnn.data.dataset import PointClouds

ALLOWED = 0.01
"""Degrees: the median error on copies of a cloud, above which the command fails."""


@dataclass(kw_only=True)
class BenchAlign(Command):
    """Measure alignment on test shapes: copies of a cloud, and different samplings of one surface, compared with PCA and ICP.

    Each cloud is copied, reordered and rotated; then it is split in two halves without a common point, one of them rotated.
    Rotations and halves are seeded. Several minutes for ModelNet40.

    Examples:
        python -m experiments bench-align --data modelnet40 --out results
        python -m experiments bench-align --data modelnet40 --limit 5 --network-shapes 0
    """

    data: str = "modelnet40"
    """A data set, by name or path; its test split."""

    root: Annotated[str | None, optional("FOLDER")] = None
    """The folder with the data sets. Default: $REQNN_DATA."""

    points: int = 1024
    """Points in a cloud; a sampling has half of them."""

    limit: Annotated[int | None, optional("INT")] = None
    """Shapes per class, drawn by the seed. Default: all."""

    model: Annotated[str | None, optional("RUN")] = None
    """An equivariant run whose features to try. Default: an untrained REQNN-DGCNN of a quarter of the width."""

    network_shapes: int = 5
    """Shapes per class for the network; 0 for none."""

    seed: int = 0
    """Seed of rotations, orders, halves, and the untrained network."""

    out: str = "results"
    """Folder for align.json, align.md and align.png."""

    def run(self) -> int:
        """Measure, print, write; fails if copies are not aligned to 0.01°."""
        from experiments.alignment.measure import run
        from experiments.alignment.report import classes_table, ways_table, write
        from reqnn import data

        folder = make_folder(self.out)
        clouds = self._chosen(data.load(self.data, "test", points=self.points, root=self.root))
        result = run(
            clouds, self.seed, self._network(), self.network_shapes, lambda text: print(text, file=sys.stderr, flush=True)
        )
        result.settings["network"] = self.model or "untrained"
        screen = console()
        ways_table(result).print(screen)
        classes_table(result).print(screen)
        show_written(write(result, folder))
        return OK if float(result.copies.errors.median()) < ALLOWED else NOT_OK

    def _chosen(self, clouds: PointClouds) -> PointClouds:
        import torch

        if self.limit is None:
            return clouds
        if self.limit < 1:
            raise InputError(f"--limit {self.limit}: at least one shape of each class is needed")
        order = torch.randperm(len(clouds), generator=torch.Generator().manual_seed(self.seed))
        labels = clouds.labels[order]
        taken = [order[labels == label][: self.limit] for label in range(len(clouds.classes))]
        return clouds.subset(torch.cat(taken).sort().values)

    def _network(self) -> nn.Module | None:
        import torch

        from reqnn.alignment.network import load_network
        from reqnn.zoo import create_model

        if self.network_shapes < 1:
            return None
        if self.model is not None:
            return load_network(self.model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return create_model("dgcnn", equivariant=True, width=0.25).eval()
