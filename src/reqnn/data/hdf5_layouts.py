"""Data sets in HDF5 files: PointNet's ModelNet and ShapeNet, 3D MNIST as on Kaggle, ScanObjectNN."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from reqnn.data.dataset import PointClouds, different_points
from reqnn.data.files import cache_key, cached, read_lines
from reqnn.data.hdf5 import is_hdf5, member, open_hdf5, read_clouds, read_field, read_labels, read_parts
from reqnn.data.layout import Layout, Request, assemble, check_split, file_split, fit
from reqnn.data.sampling import choose_points, normalise
from reqnn.errors import InputError

DIGITS = tuple("0123456789")
KAGGLE_FILES = {"train": "train_point_clouds.h5", "test": "test_point_clouds.h5"}
SCAN_CLASSES = (
    "bag", "bin", "box", "cabinet", "chair", "desk", "display", "door", "shelf", "table",
    "bed", "pillow", "sink", "sofa", "toilet",
)  # fmt: skip
SCAN_STEMS = {"train": "training_objectdataset", "test": "test_objectdataset"}


def _is_pointnet(path: Path) -> bool:
    if path.is_dir():
        return any(path.glob("ply_data_*.h5"))
    if not is_hdf5(path):
        return False
    with open_hdf5(path) as opened:
        return "data" in opened and "label" in opened


def _load_pointnet(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, in the order of the files; as they are stored, unless normalize=True."""
    files = [path]
    if path.is_dir():
        check_split(request, [split for split in ("train", "val", "test") if split != "val" or _split_files(path, "val")])
        files = _split_files(path, request.split)
    if not files:
        raise InputError(f"{path} holds no ply_data_{request.split}*.h5: this split is missing; download it too")
    classes = _class_names(path if path.is_dir() else path.parent) or request.classes
    clouds: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    normals: list[np.ndarray] = []
    parts: list[np.ndarray] = []
    up = "y"
    for file in files:
        with open_hdf5(file) as opened:
            data = read_clouds(opened, "data", file)
            taken, index = fit(data, request, f"{file}: field 'data'", bool(request.normalize), sum(map(len, labels)))
            clouds.append(taken)
            labels.append(read_labels(opened, "label", file, len(data), len(classes) if classes else None))
            up = str(opened.attrs.get("up", up))
            if "normal" in opened:
                normal = read_clouds(opened, "normal", file)
                if normal.shape != data.shape:
                    raise InputError(f"{file}: field 'normal' has shape {normal.shape}; as 'data', {data.shape}, is needed")
                normals.append(normal if index is None else np.take_along_axis(normal, index, 1))
            if request.parts is not None:
                part = read_parts(opened, "pid", file, data.shape[:2])
                parts.append(part if index is None else np.take_along_axis(part, index[..., 0], 1))
    numbers = np.concatenate(labels)
    classes = classes or tuple(map(str, range(int(numbers.max(initial=-1)) + 1)))
    directions = np.concatenate(normals) if len(normals) == len(files) else None
    joined = np.concatenate(parts) if parts else None
    found = assemble(np.concatenate(clouds), numbers, classes, request, up, directions, parts=joined)
    return found if path.is_dir() else file_split(path, found, request)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    """The class names beside the files, if any: one per line, in ShapeNet's list with a synset behind it."""
    for name in ("shape_names.txt", "all_object_categories.txt"):
        if (folder / name).is_file():
            lines = read_lines(folder / name)
            return tuple(lines if name == "shape_names.txt" else (line.split()[0] for line in lines))
    return None


def _split_files(path: Path, split: str) -> list[Path]:
    """The files of a split, in the order of `train_files.txt` if it exists, else by number."""
    for listed in (path / f"{split}_files.txt", path / f"{split}_hdf5_file_list.txt"):
        if listed.is_file():  # its lines are paths on another machine: only the names count
            return [path / Path(line).name for line in read_lines(listed)]
    numbered = [(int([-1, *re.findall(r"\d+", file.stem)][-1]), file) for file in path.glob(f"ply_data_{split}*.h5")]
    return [file for _, file in sorted(numbered)]


def _is_kaggle(path: Path) -> bool:
    if path.is_dir():
        return any((path / name).is_file() for name in KAGGLE_FILES.values())
    if not is_hdf5(path):
        return False
    with open_hdf5(path) as opened:
        first = member(opened, next(iter(opened), ""), path)
        return hasattr(first, "keys") and "points" in first


def _load_kaggle(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, in the order of their numbers; points that a cloud holds twice count once."""
    file, classes = path, request.classes or DIGITS
    if path.is_dir():
        check_split(request)
        file = path / KAGGLE_FILES[request.split]
        if not file.is_file():
            raise InputError(f"{path} holds no {file.name}: the split '{request.split}' is missing; download it too")
    with open_hdf5(file) as opened:
        key = cache_key([file], {**request.settings(), "normalize": request.normalize})
        arrays = cached(request.cache, key, lambda: _read_kaggle(opened, file, request, len(classes)))
    found = assemble(arrays["clouds"], arrays["labels"], classes, request, "z")
    return found if path.is_dir() else file_split(path, found, request)


def _read_kaggle(opened: Any, file: Path, request: Request, classes: int) -> dict[str, np.ndarray]:
    names = sorted(opened, key=lambda name: (len(name), name))  # "2" before "10"
    clouds = np.empty((len(names), request.points, 3), dtype=np.float32)
    labels = np.empty(len(names), dtype=np.int64)
    for i, name in enumerate(names):
        where, group = f"{file}: field '{name}/points'", member(opened, name, file)
        if not hasattr(group, "keys"):
            raise InputError(f"{where} is missing; each entry is a group that holds 'points'")
        points = different_points(read_clouds(group, "points", file, dimensions=2))
        taken = choose_points(len(points), request.points, request.seed, i, where, request.sampling, request.short)
        clouds[i] = points[taken] if request.normalize is False else normalise(points[taken], where)
        label = np.asarray(group.attrs.get("label", "missing"))
        if label.size != 1 or label.dtype.kind not in "iu" or not 0 <= int(label.item()) < classes:
            needed = f"a whole number from 0 to {classes - 1} is needed"
            raise InputError(f"{file}: field '{name}': the attribute 'label' is {label}; {needed}")
        labels[i] = int(label.item())
    return {"clouds": clouds, "labels": labels}


def _is_scans(path: Path) -> bool:
    return path.is_dir() and _scan_folder(path) is not None


def _scan_folder(path: Path) -> Path | None:
    """Where the files of ScanObjectNN are: here or below, as in the release."""
    places = [path / place for place in (".", "main_split", "h5_files/main_split")]
    return next((place for place in places if any(any(place.glob(f"{stem}*.h5")) for stem in SCAN_STEMS.values())), None)


def _load_scans(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, including background points; centred and scaled unless normalize=False."""
    check_split(request)
    file = _scan_variant(_scan_folder(path) or path, request)
    with open_hdf5(file) as opened:
        data = read_clouds(opened, "data", file)
        labels = read_labels(opened, "label", file, len(data), len(SCAN_CLASSES))
        if "mask" in opened and (shape := read_field(opened, "mask", file).shape) != data.shape[:2]:
            raise InputError(f"{file}: field 'mask' has shape {shape}; {data.shape[:2]} is needed")
    clouds, _ = fit(data, request, f"{file}: field 'data'", request.normalize is not False)
    return assemble(clouds, labels, SCAN_CLASSES, request, "y")


def _scan_variant(place: Path, request: Request) -> Path:
    """The file of the requested variant, or the only one."""
    stem = SCAN_STEMS[request.split]
    found = {file.stem.removeprefix(stem).removeprefix("_"): file for file in sorted(place.glob(f"{stem}*.h5"))}
    names = ", ".join(repr(name) for name in found)
    if request.variant is None and len(found) == 1:
        return next(iter(found.values()))
    if request.variant is None and found:
        raise InputError(f"{place} holds {len(found)} variants; choose one: variant= {names} ('' for the plain one)")
    if request.variant not in found:
        given = "" if request.variant is None else f" of variant {request.variant!r}"
        raise InputError(f"{place} holds no {stem}*.h5{given}; {f'there are {names}' if found else 'download this split too'}")
    return found[request.variant]


LAYOUTS = (
    Layout("PointNet's HDF5 files", "ply_data_{train,test}*.h5, or one file with data and label", _is_pointnet, _load_pointnet),
    Layout("3D MNIST's Kaggle files", "{train,test}_point_clouds.h5, one group per shape", _is_kaggle, _load_kaggle),
    Layout("ScanObjectNN's HDF5 files", "{training,test}_objectdataset*.h5", _is_scans, _load_scans),
)
