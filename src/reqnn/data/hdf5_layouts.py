"""Data sets in HDF5 files: PointNet's ModelNet and ShapeNet, 3D MNIST as on Kaggle, ScanObjectNN."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from reqnn.data.dataset import PointClouds, different_points
from reqnn.data.files import read_lines
from reqnn.data.hdf5 import is_hdf5, member, open_hdf5, read_clouds, read_labels, read_per_point
from reqnn.data.layout import Layout, Request, Sample, assemble, check_split
from reqnn.data.shape_file import Shape
from reqnn.errors import InputError

DIGITS = tuple("0123456789")
KAGGLE_FILES = {"train": "train_point_clouds.h5", "test": "test_point_clouds.h5"}
SCAN_CLASSES = (
    "bag", "bin", "box", "cabinet", "chair", "desk", "display", "door", "shelf", "table",
    "bed", "pillow", "sink", "sofa", "toilet",
)  # fmt: skip
SCAN_STEMS = {"train": "training_objectdataset", "test": "test_objectdataset"}


def _load_pointnet(path: Path, request: Request) -> PointClouds | None:
    """The clouds of a split, in the order of the files; as they are stored, unless normalize=True."""
    folder, files = path, [path]
    if path.is_dir():
        if not any(path.glob("ply_data_*.h5")):
            return None
        check_split(request, [split for split in ("train", "val", "test") if split != "val" or _split_files(path, "val")])
        files = _split_files(path, request.split)
        if not files:
            raise InputError(f"{path} holds no ply_data_{request.split}*.h5: this split is missing; download it too")
    elif is_hdf5(path):
        folder = path.parent
    else:
        return None
    with open_hdf5(files[-1]) as opened:
        if path.is_file() and not ("data" in opened and "label" in opened):
            return None
        up = str(opened.attrs.get("up", "y"))
    classes = request.known.classes
    if (folder / "shape_names.txt").is_file():
        classes = tuple(read_lines(folder / "shape_names.txt"))
    elif (folder / "all_object_categories.txt").is_file():  # ShapeNet's, with a synset behind each name
        classes = tuple(line.split()[0] for line in read_lines(folder / "all_object_categories.txt"))
    return assemble(request, classes, up, _stored_clouds(files, classes, bool(request.known.parts)), normalize=False)


def _stored_clouds(files: Sequence[Path], classes: Sequence[str] | None, parts: bool) -> Iterator[Sample]:
    """The clouds of files with `data` (S, M, 3) and `label`; with `normal` and `pid`, the part of each point, if there are."""
    number = 0  # seeds the choice of points
    for file in files:
        with open_hdf5(file) as opened:
            data = read_clouds(opened, "data", file)
            labels = read_labels(opened, "label", file, len(data), None if classes is None else len(classes))
            normals = read_clouds(opened, "normal", file) if "normal" in opened else None
            if normals is not None and normals.shape != data.shape:
                raise InputError(f"{file}: field 'normal' has shape {normals.shape}; as 'data', {data.shape}, is needed")
            if "mask" in opened:
                read_per_point(opened, "mask", file, data.shape[:2])
            part = read_per_point(opened, "pid", file, data.shape[:2]) if parts else None
        for i, cloud in enumerate(data):
            rest = None if normals is None else normals[i]
            if part is not None:
                rest = np.column_stack([np.zeros_like(cloud) if rest is None else rest, part[i]])
            yield f"{file}: field 'data', cloud {i}", Shape(cloud, None, rest, number.to_bytes(8, "little")), int(labels[i])
            number += 1


def _split_files(path: Path, split: str) -> list[Path]:
    """The files of a split, in the order of `train_files.txt` if it exists, else by number."""
    for listed in (path / f"{split}_files.txt", path / f"{split}_hdf5_file_list.txt"):
        if listed.is_file():  # its lines are paths on another machine: only the names count
            return [path / Path(line).name for line in read_lines(listed)]
    numbered = [(int([-1, *re.findall(r"\d+", file.stem)][-1]), file) for file in path.glob(f"ply_data_{split}*.h5")]
    return [file for _, file in sorted(numbered)]


def _load_kaggle(path: Path, request: Request) -> PointClouds | None:
    """The clouds of a split, in the order of their numbers; points that a cloud holds twice count once."""
    file, classes = path, request.known.classes or DIGITS
    if path.is_dir():
        if not any((path / name).is_file() for name in KAGGLE_FILES.values()):
            return None
        check_split(request)
        file = path / KAGGLE_FILES[request.split]
        if not file.is_file():
            raise InputError(f"{path} holds no {file.name}: the split '{request.split}' is missing; download it too")
    elif is_hdf5(path):
        with open_hdf5(path) as opened:
            first = member(opened, next(iter(opened), ""), path)
            if not hasattr(first, "keys") or "points" not in first:
                return None
    else:
        return None
    return assemble(request, classes, "z", _kaggle_clouds(file, len(classes)), files=[file])


def _kaggle_clouds(file: Path, classes: int) -> Iterator[Sample]:
    with open_hdf5(file) as opened:
        for i, name in enumerate(sorted(opened, key=lambda name: (len(name), name))):  # "2" before "10"
            where, group = f"{file}: field '{name}/points'", member(opened, name, file)
            if not hasattr(group, "keys"):
                raise InputError(f"{where} is missing; each entry is a group that holds 'points'")
            points = different_points(read_clouds(group, "points", file, dimensions=2))
            label = np.asarray(group.attrs.get("label", "missing"))
            if label.size != 1 or label.dtype.kind not in "iu" or not 0 <= int(label.item()) < classes:
                needed = f"a whole number from 0 to {classes - 1} is needed"
                raise InputError(f"{file}: field '{name}': the attribute 'label' is {label}; {needed}")
            yield where, Shape(points, None, None, i.to_bytes(8, "little")), int(label.item())


def _load_scans(path: Path, request: Request) -> PointClouds | None:
    """The clouds of a split, including background points; centred and scaled unless normalize=False.

    The files are here or below, as in the release: those of the requested variant, or of the only one.
    """
    places = [path / place for place in (".", "main_split", "h5_files/main_split")] if path.is_dir() else []
    place = next((one for one in places if any(any(one.glob(f"{stem}*.h5")) for stem in SCAN_STEMS.values())), None)
    if place is None:
        return None
    check_split(request)
    stem = SCAN_STEMS[request.split]
    found = {file.stem.removeprefix(stem).removeprefix("_"): file for file in sorted(place.glob(f"{stem}*.h5"))}
    names, variant = ", ".join(repr(name) for name in found), request.variant
    if variant is None and len(found) > 1:
        raise InputError(f"{place} holds {len(found)} variants; choose one: variant= {names} ('' for the plain one)")
    if variant is None and found:
        (variant,) = found
    if variant is None or variant not in found:
        given = "" if variant is None else f" of variant {variant!r}"
        raise InputError(f"{place} holds no {stem}*.h5{given}; {f'there are {names}' if found else 'download this split too'}")
    return assemble(request, SCAN_CLASSES, "y", _stored_clouds([found[variant]], SCAN_CLASSES, parts=False))


LAYOUTS = (
    Layout("PointNet's HDF5 files", "ply_data_{train,test}*.h5, or one file with data and label", _load_pointnet),
    Layout("3D MNIST's Kaggle files", "{train,test}_point_clouds.h5, one group per shape", _load_kaggle),
    Layout("ScanObjectNN's HDF5 files", "{training,test}_objectdataset*.h5", _load_scans),
)
