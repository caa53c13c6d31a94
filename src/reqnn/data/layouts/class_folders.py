"""Class folders with meshes or clouds: ModelNet's `<class>/{train,test}/`, `{train,test}/<class>/`, or `<class>/`."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np

from reqnn.data.dataset import PointClouds
from reqnn.data.layouts.base import Layout, Request, check_split
from reqnn.data.layouts.shape_files import load_files
from reqnn.data.shape_file import SUFFIXES
from reqnn.data.validation_split import held_out
from reqnn.errors import InputError

SPLITS = ("train", "val", "test")


def recognise(path: Path) -> bool:
    """A folder whose subfolders hold a readable file, at any depth."""
    return path.is_dir() and any(_shapes(folder, first=True) for folder in _folders(path))


def load(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, by class and file name; without train and test folders the files are split by a seed."""
    top = _folders(path)
    split_first = {folder.name for folder in top} <= set(SPLITS)
    classes = sorted({folder.name for parent in (top if split_first else [path]) for folder in _folders(parent)})
    if request.only is not None:
        classes = [name for name in request.only if name in classes]
    if not classes:
        raise InputError(f"{path} holds none of the requested class folders")
    files: list[Path] = []
    labels: list[int] = []
    sides: list[str] = []  # "train", "test", or "" if the folders do not say
    for label, name in enumerate(classes):
        found = _split_first(path, name) if split_first else _class_first(path / name)
        if not found:
            raise InputError(f"{path}: the class folder '{name}' holds no shapes; fill it or remove it")
        files += [file for file, _ in found]
        sides += [side for _, side in found]
        labels += [label] * len(found)
    check_split(request, [*(split for split in SPLITS if split in sides or (split != "val" and "" in sides)), "all"])
    chosen = _chosen(path, files, np.array(labels), sides, request)
    return load_files([files[i] for i in chosen], [labels[i] for i in chosen], classes, request, "z", normals=False)


def _split_first(path: Path, name: str) -> list[tuple[Path, str]]:
    return [(file, split) for split in SPLITS if (path / split / name).is_dir() for file in _shapes(path / split / name)]


def _class_first(folder: Path) -> list[tuple[Path, str]]:
    if any((folder / split).is_dir() for split in SPLITS):
        return [(file, split) for split in SPLITS if (folder / split).is_dir() for file in _shapes(folder / split)]
    return [(file, "") for file in _shapes(folder)]


def _chosen(path: Path, files: list[Path], labels: np.ndarray, sides: list[str], request: Request) -> list[int]:
    """The indices of the files in the requested split."""
    if "" in sides and set(sides) != {""}:
        odd = files[sides.index("")]
        raise InputError(f"{path}: some class folders have train and test folders and some, as for {odd}, do not")
    if request.split == "all":
        return list(range(len(files)))
    if "" not in sides:
        return [i for i, side in enumerate(sides) if side == request.split]
    test = held_out(labels, _copies(files), request.test_fraction, request.split_seed)
    return np.flatnonzero(test == (request.split == "test")).tolist()


def _copies(files: list[Path]) -> np.ndarray:
    """A group number per file, the same for byte-identical files; only files of equal size are read."""
    sizes = Counter(file.stat().st_size for file in files)
    keys: dict[tuple[int, bytes], int] = {}
    numbers = []
    for i, file in enumerate(files):
        size = file.stat().st_size
        content = hashlib.sha256(_read(file)).digest() if sizes[size] > 1 else str(i).encode()
        numbers.append(keys.setdefault((size, content), len(keys)))
    return np.array(numbers)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check its permissions") from error


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith((".", "__")))


def _shapes(folder: Path, first: bool = False) -> list[Path]:
    """The readable files below a folder, by name; only one of them with `first`."""
    readable = (f for f in folder.rglob("*") if f.suffix.lower() in SUFFIXES and not f.name.startswith(".") and f.is_file())
    return sorted(islice(readable, 1 if first else None))


LAYOUT = Layout(
    "class folders",
    f"<class>/train/*, <class>/test/*, or train/<class>/*, test/<class>/*, or <class>/*, ending in {' '.join(SUFFIXES)}",
    recognise,
    load,
)
