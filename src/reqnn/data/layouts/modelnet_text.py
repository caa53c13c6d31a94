"""PointNet++'s `modelnet40_normal_resampled`: `<class>/<class>_0001.txt`, one line x,y,z,nx,ny,nz per point."""

from __future__ import annotations

from pathlib import Path

from reqnn.data.dataset import PointClouds
from reqnn.data.layouts.base import Layout, Request, check_split, read_lines
from reqnn.data.layouts.shape_files import load_files
from reqnn.errors import InputError


def recognise(path: Path) -> bool:
    """A folder with `modelnet40_shape_names.txt` or `modelnet10_shape_names.txt`."""
    return path.is_dir() and _prefix(path) is not None


def load(path: Path, request: Request) -> PointClouds:
    """The clouds of a split in the order of its list, with normals."""
    check_split(request)
    prefix = _prefix(path)
    assert prefix is not None
    classes = read_lines(path / f"{prefix}_shape_names.txt")
    listed = path / f"{prefix}_{request.split}.txt"
    files, labels = [], []
    for name in read_lines(listed):
        kind = name.rpartition("_")[0]  # night_stand_0001 is a night_stand
        if kind not in classes:
            raise InputError(f"{listed}: '{name}' is of no class in {prefix}_shape_names.txt")
        if request.only is None or kind in request.only:
            files.append(path / kind / f"{name}.txt")
            labels.append(classes.index(kind))
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise InputError(f"{listed}: {len(missing)} of its {len(files)} files are missing, such as {missing[0]}")
    return load_files(files, labels, classes, request, "y")


def _prefix(path: Path) -> str | None:
    return next((prefix for prefix in ("modelnet40", "modelnet10") if (path / f"{prefix}_shape_names.txt").is_file()), None)


LAYOUT = Layout("ModelNet's resampled text files", "modelnet40_shape_names.txt, modelnet40_train.txt", recognise, load)
