"""PointNet's HDF5 files, `ply_data_{train,test}*.h5` with `data`, `label` and optional `normal`: ModelNet, ShapeNet's parts.

Class names are in `shape_names.txt` or `all_object_categories.txt`; `train_files.txt` may give the order of the files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reqnn.data.dataset import PointClouds
from reqnn.data.hdf5 import is_hdf5, open_hdf5, read_clouds, read_labels
from reqnn.data.layouts.base import Layout, Request, assemble, check_split, file_split, fit, pick, read_lines
from reqnn.errors import InputError

SPLITS = ("train", "val", "test")


def recognise(path: Path) -> bool:
    """A folder with at least one `ply_data_*.h5`, or one HDF5 file with `data` and `label`."""
    if path.is_dir():
        return any(path.glob("ply_data_*.h5"))
    if not is_hdf5(path):
        return False
    with open_hdf5(path) as opened:
        return "data" in opened and "label" in opened


def load(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, in the order of the files; as they are stored, unless normalize=True."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        check_split(request, [split for split in SPLITS if split != "val" or split_files(path, "val")])
        files = split_files(path, request.split)
    else:
        files = [path]
    if not files:
        raise InputError(f"{path} holds no ply_data_{request.split}*.h5: this split is missing; download it too")
    classes = class_names(folder) or request.classes
    parts: list[_Part] = []
    for file in files:
        parts.append(_read(file, request, classes, offset=sum(len(part.labels) for part in parts)))
    clouds, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in ("clouds", "labels"))
    some = [part.normals for part in parts if part.normals is not None]
    normals = np.concatenate(some) if len(some) == len(parts) else None
    classes = classes or tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
    if not path.is_dir():
        chosen = file_split(path, labels, request)
        clouds, labels, normals = clouds[chosen], labels[chosen], None if normals is None else normals[chosen]
    return assemble(clouds, labels, classes, request, parts[0].up, normals)


@dataclass(frozen=True)
class _Part:
    clouds: np.ndarray
    labels: np.ndarray
    normals: np.ndarray | None
    up: str


def _read(file: Path, request: Request, classes: Sequence[str] | None, offset: int) -> _Part:
    with open_hdf5(file) as opened:
        data = read_clouds(opened, "data", file)
        labels = read_labels(opened, "label", file, len(data), None if classes is None else len(classes))
        normals = read_clouds(opened, "normal", file) if "normal" in opened else None
        up = str(opened.attrs.get("up", "y"))
    clouds, taken = fit(data, request, f"{file}: field 'data'", bool(request.normalize), offset)
    if normals is not None:
        if normals.shape != data.shape:
            raise InputError(f"{file}: field 'normal' has shape {normals.shape}; as 'data', {data.shape}, is needed")
        normals = pick(normals, taken)
    return _Part(clouds, labels, normals, up)


def class_names(folder: Path) -> tuple[str, ...] | None:
    """The class names beside the files, if any."""
    if (folder / "shape_names.txt").is_file():
        return tuple(read_lines(folder / "shape_names.txt"))
    if (folder / "all_object_categories.txt").is_file():  # ShapeNet's: a name and a synset per line
        return tuple(line.split()[0] for line in read_lines(folder / "all_object_categories.txt"))
    return None


def split_files(path: Path, split: str) -> list[Path]:
    """The files of a split, in the order of `train_files.txt` if it exists, else by number."""
    for listed in (path / f"{split}_files.txt", path / f"{split}_hdf5_file_list.txt"):
        if listed.is_file():  # its lines are paths on another machine: only the names count
            return [path / Path(line).name for line in read_lines(listed)]
    return sorted(path.glob(f"ply_data_{split}*.h5"), key=_number)


def _number(file: Path) -> tuple[int, str]:
    digits = re.findall(r"\d+", file.stem)
    return (int(digits[-1]) if digits else -1, file.name)


LAYOUT = Layout(
    "PointNet's HDF5 files", "ply_data_train*.h5, ply_data_test*.h5, or one file with data and label", recognise, load
)
