"""`reqnn embed`: rotation-invariant embeddings of files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from reqnn.commands.base import NOT_OK, OK, Command, optional
from reqnn.commands.on_ray import OnRay
from reqnn.errors import InputError


@dataclass(kw_only=True)
class Embed(OnRay, Command):
    """Embed meshes and clouds in any orientation: a row of numbers per file, near each other for similar shapes.

    Formats and folders are those of `reqnn predict`. A file that cannot be read is reported and left out; the exit code is 1.

    Examples:
        reqnn embed scans/ --out embeddings.npz
        reqnn embed clouds/*.parquet --engine ray --workers 8 --out embeddings
        reqnn embed a.ply b.stl --network runs/mine --out embeddings.parquet
    """

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE ...")]
    """Files, and folders of files."""

    out: Annotated[str, tyro.conf.arg(metavar="FILE|FOLDER")]
    """The file to write: .npz (arrays `files` and `embeddings`) or .parquet (columns of these names). On Ray: a folder."""

    network: Annotated[str, tyro.conf.arg(metavar="NAME|RUN")] = "dgcnn.full.modelnet40"
    """Name of pretrained weights, a run's folder, or a weights file."""

    points: Annotated[int | None, optional("INT")] = None
    """Points to sample per file. Default: as in training."""

    seed: int = 0
    """Seed of the choice of points."""

    def run(self) -> int:
        """Read, embed, write."""
        import numpy as np

        from reqnn.data.files import atomic_file
        from reqnn.deploy import embed
        from reqnn.extras import need
        from reqnn.pretrained import cloud_in_any_pose, find_files, load

        if self.engine == "ray":
            return self.run_on_ray("embed", self.files, self.out, self.network, self.points, self.seed)
        out = Path(self.out)
        if out.suffix not in (".npz", ".parquet"):
            raise InputError(f"--out {out}: the name must end in .npz or .parquet")
        if out.suffix == ".parquet":
            need("pyarrow")  # before hours of work, not after
        net = load(self.network)
        clouds, failed = {}, 0
        for file in find_files(self.files):
            try:
                clouds[str(file)] = cloud_in_any_pose(file, self.points or net.card["points"], self.seed)
            except InputError as error:
                failed += 1
                print(f"error: {error}", file=sys.stderr)
        if not clouds:
            raise InputError("none of the files can be read")
        rows = embed(list(clouds.values()), net).float().numpy()
        with atomic_file(out) as partial:
            if out.suffix == ".npz":
                np.savez(partial, files=np.array(list(clouds)), embeddings=rows)
            else:
                table = need("pyarrow").table({"files": list(clouds), "embeddings": list(rows)})
                need("pyarrow.parquet").write_table(table, partial)
        print(f"wrote {out}: {len(clouds)} files")
        return NOT_OK if failed else OK
