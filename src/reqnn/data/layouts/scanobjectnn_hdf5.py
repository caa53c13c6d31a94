"""ScanObjectNN's HDF5 files: `{training,test}_objectdataset<variant>.h5` with `data`, `label` and optional `mask`."""

from __future__ import annotations

from pathlib import Path

from reqnn.data.dataset import PointClouds
from reqnn.data.hdf5 import open_hdf5, read_clouds, read_field, read_labels
from reqnn.data.layouts.base import Layout, Request, assemble, check_split, fit
from reqnn.errors import InputError

CLASSES = (
    "bag", "bin", "box", "cabinet", "chair", "desk", "display", "door", "shelf", "table",
    "bed", "pillow", "sink", "sofa", "toilet",
)  # fmt: skip
PLACES = (".", "main_split", "h5_files/main_split")
STEMS = {"train": "training_objectdataset", "test": "test_objectdataset"}


def recognise(path: Path) -> bool:
    """A folder with `training_objectdataset*.h5` or `test_objectdataset*.h5`, or the release's folder above it."""
    return path.is_dir() and _place(path) is not None


def load(path: Path, request: Request) -> PointClouds:
    """The clouds of a split, including background points; centred and scaled unless normalize=False."""
    check_split(request)
    place = _place(path)
    assert place is not None
    file = _variant(place, request)
    with open_hdf5(file) as opened:
        data = read_clouds(opened, "data", file)
        labels = read_labels(opened, "label", file, len(data), len(CLASSES))
        if "mask" in opened and (shape := read_field(opened, "mask", file).shape) != data.shape[:2]:
            raise InputError(f"{file}: field 'mask' has shape {shape}; {data.shape[:2]} is needed")
    normalize = True if request.normalize is None else request.normalize
    clouds, _ = fit(data, request, f"{file}: field 'data'", normalize)
    return assemble(clouds, labels, CLASSES, request, "y")


def _place(path: Path) -> Path | None:
    for place in PLACES:
        if any(any((path / place).glob(f"{stem}*.h5")) for stem in STEMS.values()):
            return path / place
    return None


def _variant(place: Path, request: Request) -> Path:
    """The file of the requested variant, or the only one."""
    stem = STEMS[request.split]
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


LAYOUT = Layout("ScanObjectNN's HDF5 files", "training_objectdataset*.h5, test_objectdataset*.h5", recognise, load)
