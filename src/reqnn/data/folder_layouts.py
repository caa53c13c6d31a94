"""Data sets with one file per shape: class folders, ModelNet's resampled text files, ShapeNet's folders of point files."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from reqnn.data.dataset import PointClouds
from reqnn.data.files import read_bytes, read_lines, reading
from reqnn.data.layout import Layout, Request, Sample, assemble, check_split, drawn_split
from reqnn.data.shape_file import SUFFIXES, Shape, read_shape
from reqnn.errors import InputError

SPLITS = ("train", "val", "test")
SYNSETS = "synsetoffset2category.txt"


def _load_files(
    files: Sequence[Path],
    labels: Sequence[int],
    classes: Sequence[str],
    request: Request,
    up: str,
    normals: bool = True,
    parts: Sequence[Path] = (),
) -> PointClouds:
    """Clouds of these files, in their order, cached; byte-identical files form a group.

    `normals` says whether columns 4 to 6 of a cloud file are normals. `parts` are the files with the part of each point: the
    same, for their column 7, or lists of numbers that count from 1 in each class.
    """

    def read() -> Iterator[Sample]:
        for i, (file, label) in enumerate(zip(files, labels, strict=True)):
            shape = read_shape(file)
            if parts and parts[i] != file:
                shape = _with_parts(shape, parts[i], classes[label], request.known.parts or {})
            elif not normals and shape.faces is None:
                shape = replace(shape, rest=None)
            yield str(file), shape, label

    return assemble(request, classes, up, read(), files=[*files, *parts], copies=True)


def _with_parts(shape: Shape, file: Path, name: str, parts: dict[str, int]) -> Shape:
    """A cloud with unknown normals and the parts of a list, whose numbers begin with 1 in each class."""
    if name not in parts:
        raise InputError(f"the parts of {name} are not known; classes with parts are {', '.join(parts)}")
    lines, first = read_lines(file), sum(list(parts.values())[: list(parts).index(name)])
    if len(lines) != len(shape.vertices) or not all(line.isdecimal() for line in lines):
        raise InputError(f"{file}: {len(shape.vertices)} lines with the number of a part are needed; there are {len(lines)}")
    numbers = np.array(lines, dtype=np.float64) - 1 + first
    return replace(shape, rest=np.column_stack([np.zeros_like(shape.vertices), numbers]))


def _load_class_folders(path: Path, request: Request) -> PointClouds | None:
    """`<class>/{train,test}/`, `{train,test}/<class>/`, or `<class>/`, whose files are split by a seed."""
    if not path.is_dir() or not any(next(_shapes(folder), None) for folder in _folders(path)):
        return None
    found: dict[str, list[tuple[Path, str]]] = {}  # class → its files, each with its split, "" if the folders do not say
    folders, only = _folders(path), request.known.only
    split_first = {folder.name for folder in folders} <= set(SPLITS)
    if split_first:
        folders = [inner for split in SPLITS if (path / split).is_dir() for inner in _folders(path / split)]
    for folder in folders:
        places = [(folder, folder.parent.name)] if split_first else [(folder / s, s) for s in SPLITS if (folder / s).is_dir()]
        for place, side in places or [(folder, "")]:
            found.setdefault(folder.name, []).extend((file, side) for file in sorted(_shapes(place)))
    classes = sorted(found) if only is None else [name for name in only if name in found]
    if not classes:
        raise InputError(f"{path} holds none of the requested class folders")
    if empty := next((name for name in classes if not found[name]), None):
        raise InputError(f"{path}: the class folder '{empty}' holds no shapes; fill it or remove it")
    files, sides = zip(*(pair for name in classes for pair in found[name]), strict=True)
    labels = np.repeat(np.arange(len(classes)), [len(found[name]) for name in classes])
    check_split(request, [*(split for split in SPLITS if split in sides or (split != "val" and "" in sides)), "all"])
    if "" in sides and set(sides) != {""}:
        odd = files[sides.index("")]
        raise InputError(f"{path}: some class folders have train and test folders and some, as for {odd}, do not")
    chosen = np.flatnonzero([request.split in ("all", side) for side in sides])
    if "" in sides:  # byte-identical files stay on one side; only those of equal size are read
        often = Counter(sizes := [file.stat().st_size for file in files])
        digests = [
            hashlib.sha256(read_bytes(file)).hexdigest() if often[size] > 1 else str(file)
            for file, size in zip(files, sizes, strict=True)
        ]
        chosen = drawn_split(labels, np.unique(digests, return_inverse=True)[1], request)
    return _load_files([files[i] for i in chosen], labels[chosen].tolist(), classes, request, "z", normals=False)


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith((".", "__")))


def _shapes(folder: Path) -> Iterator[Path]:
    """The readable files below a folder."""
    return (f for f in folder.rglob("*") if f.suffix.lower() in SUFFIXES and not f.name.startswith(".") and f.is_file())


def _load_modelnet(path: Path, request: Request) -> PointClouds | None:
    """The clouds of a split in the order of its list, with normals: `<class>/<class>_0001.txt`, x,y,z,nx,ny,nz per line."""
    prefix = next((one for one in ("modelnet40", "modelnet10") if (path / f"{one}_shape_names.txt").is_file()), None)
    if prefix is None:
        return None
    check_split(request)
    classes, only = read_lines(path / f"{prefix}_shape_names.txt"), request.known.only
    listed = path / f"{prefix}_{request.split}.txt"
    files, labels = [], []
    for name in read_lines(listed):
        kind = name.rpartition("_")[0]  # night_stand_0001 is a night_stand
        if kind not in classes:
            raise InputError(f"{listed}: '{name}' is of no class in {prefix}_shape_names.txt")
        if only is None or kind in only:
            files.append(path / kind / f"{name}.txt")
            labels.append(classes.index(kind))
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise InputError(f"{listed}: {len(missing)} of its {len(files)} files are missing, such as {missing[0]}")
    return _load_files(files, labels, classes, request, "y")


def _load_shapenet(path: Path, request: Request) -> PointClouds | None:
    """The clouds of a split in the order of its list; with normals if the files have them, and parts if they are wanted.

    A cloud with too few points repeats some, as users of this data set do.
    """
    if not (path / SYNSETS).is_file():
        return None
    check_split(request, SPLITS)
    rows = [line.split() for line in read_lines(path / SYNSETS)]
    if any(len(row) != 2 for row in rows):
        raise InputError(f"{path / SYNSETS}: each line holds a class name and a synset, such as 'Airplane 02691156'")
    classes, synsets = [name for name, _ in rows], [synset for _, synset in rows]
    listed = path / "train_test_split" / f"shuffled_{request.split}_file_list.json"
    with reading(listed, "JSON"):
        entries = json.loads(read_bytes(listed))
    if not isinstance(entries, list) or not all(isinstance(entry, str) and "/" in entry for entry in entries):
        raise InputError(f"{listed}: a list of names such as 'shape_data/02691156/1a04e3' is needed")
    files, labels, parts = [], [], []
    for entry in entries:
        synset, shape = entry.split("/")[-2:]
        if synset not in synsets:
            raise InputError(f"{listed}: the synset of '{entry}' is not in {SYNSETS}")
        places = [path / synset / f"{shape}.txt", path / synset / "points" / f"{shape}.pts"]  # with normals; first release
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise InputError(f"{listed} names {synset}/{shape}; neither {places[0]} nor {places[1]} exists")
        files.append(file)
        labels.append(synsets.index(synset))
        parts.append(file if file == places[0] else path / synset / "points_label" / f"{shape}.seg")
    request = replace(request, short="repeat")
    return _load_files(files, labels, classes, request, "y", parts=parts if request.known.parts else ())


FOLDERS = f"<class>/{{train,test}}/*, or {{train,test}}/<class>/*, or <class>/*, ending in {' '.join(SUFFIXES)}"
LAYOUTS = (
    Layout("ModelNet's resampled text files", "modelnet40_{shape_names,train,test}.txt", _load_modelnet),
    Layout("ShapeNet's folders of point files", f"{SYNSETS}, train_test_split/*.json", _load_shapenet),
    Layout("class folders", FOLDERS, _load_class_folders),
)
