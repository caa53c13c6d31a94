"""`reqnn align`: bring one object onto another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from reqnn.commands.base import OK, Command, busy, make_folder, optional, show_written, write_json, writing

if TYPE_CHECKING:
    from torch import Tensor

    from reqnn.data.shape_file import Shape


@dataclass(kw_only=True)
class Align(Command):
    """Find the rotation and translation that bring one object onto another, from any orientation and without matching points.

    Both files are meshes or clouds of the whole object in the same units (or see --scale), with any number of points in any
    order. The confidence says whether the object's symmetry leaves other orientations open, and whether the clouds fit at all.

    Examples:
        reqnn align a.ply b.ply --out aligned
        reqnn align scan.xyz model.off --refine --json -
        reqnn align scan_in_mm.ply model_in_m.ply --scale
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
    scale: bool = False
    """Also find the ratio of the sizes: target ≈ scale · rotation · source + translation."""
    drop_nan: bool = False
    """Leave out points with NaN or infinite coordinates, as organised scans have."""
    points: int = 4096
    """Points to sample on the surface of a mesh; clouds are used as they are."""
    seed: int = 0
    """Seed of the sampling."""
    out: str = "aligned"
    """Folder for aligned.ply (the moved source, in float64), matrix.txt (4 × 4) and alignment.json."""
    json: Annotated[str | None, optional("FILE")] = None
    """Also write alignment.json here; "-" for stdout, instead of the text."""

    def run(self) -> int:
        """Read, align, write, print."""
        import numpy as np
        import torch

        from reqnn.alignment import align
        from reqnn.data.ply import write_ply
        from reqnn.provenance import provenance

        (shape, source), (_, target) = self._read(self.source), self._read(self.target)
        with busy("aligning"):
            found = align(self.model, source, target, at=self.at, refine=self.refine, scale=self.scale)
        names = ("source", "target", "model", "at", "refine", "scale", "points", "seed")
        settings = {name: getattr(self, name) for name in names}
        record = {**found.to_dict(), "points": [len(source), len(target)], "settings": settings, **provenance()}
        folder = make_folder(self.out)
        moved = found.apply(torch.from_numpy(shape.vertices)).numpy()
        paths = [folder / "aligned.ply", folder / "matrix.txt", folder / "alignment.json"]
        with writing(f"--out {folder}"):
            write_ply(paths[0], moved, shape.faces)
            np.savetxt(paths[1], found.matrix.numpy(), fmt="%.17g")
        write_json(record, paths[2])
        if self.json is not None:
            write_json(record, self.json)
        if self.json != "-":
            axis = ", ".join(f"{value:.4f}" for value in found.axis.tolist())
            shift = ", ".join(f"{value:.6g}" for value in found.translation.tolist())
            print(f"rotation     {float(found.angle):.3f}° about ({axis})")
            print(f"translation  ({shift})")
            if self.scale:
                print(f"scale        {found.scale:.6g}")
            share = f"{100 * found.relative_residual:.2g} % of the object's radius"
            print(f"residual     {found.residual:.4g}, root mean square distance to the nearest point: {share}")
            print(f"confidence   {found.confidence:.2f}" + (f", ambiguous: {found.reason}" if found.ambiguous else ""))
            show_written(paths)
        return OK

    def _read(self, path: str) -> tuple[Shape, Tensor]:
        """The shape in a file, and points (N, 3) float64 on it, in the units of the file."""
        import torch

        from reqnn.data.sampling import check_sampling
        from reqnn.data.shape_file import read_shape

        check_sampling("random", "error", self.points, self.seed)
        shape = read_shape(Path(path), self.drop_nan)
        count = len(shape.vertices) if shape.faces is None else self.points
        return shape, torch.from_numpy(shape.sample(path, count, self.seed)[0])
