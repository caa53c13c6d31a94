"""`reqnn align`: bring one object onto another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from reqnn.commands.base import OK, Command, busy, make_folder, optional, show_written, write_json, writing
from reqnn.extras import need

if TYPE_CHECKING:
    from torch import Tensor

    from reqnn.data.shape_file import Shape


@dataclass(kw_only=True)
class Align(Command):
    """Find the rotation and translation that bring one object onto another, from any orientation and without matching points.

    Both files are meshes or clouds of the whole object in the same units, with any number of points in any order. The
    confidence says whether the object's symmetry leaves other orientations open.

    Examples:
        reqnn align a.ply b.ply --out aligned
        reqnn align scan.xyz model.off --refine --json -
        reqnn align a.ply b.ply --model runs/reqnn --at conv5
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """The object to move: OFF, OBJ, PLY, STL, GLB, XYZ, TXT, PTS, CSV, NPY, NPZ, PCD, LAS or LAZ."""
    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TARGET")]
    """The object to align with."""
    model: Annotated[str | None, optional("RUN")] = None
    """An equivariant run (folder or weights file) whose features to use. Default: closed-form features, no training."""
    at: Annotated[str | None, optional("LAYER")] = None
    """The layer of that network. Default: the last quaternion features."""
    refine: bool = False
    """Refine the alignment by ICP."""
    points: int = 4096
    """Points to sample on the surface of a mesh; clouds are used as they are."""
    seed: int = 0
    """Seed of the sampling."""
    out: str = "aligned"
    """Folder for aligned.ply (the moved source), matrix.txt (4 × 4) and alignment.json."""
    json: Annotated[str | None, optional("FILE")] = None
    """Also write alignment.json here; "-" for stdout, instead of the text."""

    def run(self) -> int:
        """Read, align, write, print."""
        import numpy as np

        from reqnn.alignment import align
        from reqnn.provenance import provenance

        (shape, source), (_, target) = self._read(self.source), self._read(self.target)
        with busy("aligning"):
            found = align(self.model, source, target, at=self.at, refine=self.refine)
        settings = {name: getattr(self, name) for name in ("source", "target", "model", "at", "refine", "points", "seed")}
        record = {**found.to_dict(), "points": [len(source), len(target)], "settings": settings, **provenance()}
        trimesh, folder = need("trimesh"), make_folder(self.out)
        moved = shape.vertices @ found.rotation.numpy().T + found.translation.numpy()
        geometry: Any = trimesh.PointCloud(moved) if shape.faces is None else trimesh.Trimesh(moved, shape.faces, process=False)
        paths = [folder / "aligned.ply", folder / "matrix.txt", folder / "alignment.json"]
        with writing(f"--out {folder}"):
            geometry.export(paths[0])
            np.savetxt(paths[1], found.matrix.numpy(), fmt="%.17g")
        write_json(record, paths[2])
        if self.json is not None:
            write_json(record, self.json)
        if self.json != "-":
            axis = ", ".join(f"{value:.4f}" for value in found.axis.tolist())
            shift = ", ".join(f"{value:.6g}" for value in found.translation.tolist())
            print(f"rotation     {float(found.angle):.3f}° about ({axis})")
            print(f"translation  ({shift})")
            print(f"residual     {found.residual:.4g}, root mean square distance to the nearest point")
            print(f"confidence   {found.confidence:.2f}" + (f", ambiguous: {found.reason}" if found.ambiguous else ""))
            show_written(paths)
        return OK

    def _read(self, path: str) -> tuple[Shape, Tensor]:
        """The shape in a file, and points (N, 3) float64 on it, in the units of the file."""
        import torch

        from reqnn.data.sampling import check_sampling
        from reqnn.data.shape_file import read_shape

        check_sampling("random", "error", self.points, self.seed)
        shape = read_shape(Path(path))
        count = len(shape.vertices) if shape.faces is None else self.points
        return shape, torch.from_numpy(shape.sample(path, count, self.seed)[0])
