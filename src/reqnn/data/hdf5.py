"""Read HDF5 files; errors name the file and the field."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reqnn.data.files import reading
from reqnn.errors import InputError
from reqnn.extras import need

if TYPE_CHECKING:
    import h5py


_MOST_COMPRESSED = 1100  # gzip reaches a factor of 1032
_SMALL = 2**20  # bytes that may consist of fill values


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, by its name or its content."""
    return path.is_file() and (path.suffix.lower() in (".h5", ".hdf5") or need("h5py").is_hdf5(path))


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file open for reading; `InputError` if it is missing, unreadable, truncated or not HDF5."""
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty; download it again")
        file = need("h5py").File(path, "r")
    except (FileNotFoundError, PermissionError) as error:
        why = os.strerror(error.errno or 0)
        raise InputError(f"{path} cannot be read ({why}); check that it is there, and its permissions") from error
    except OSError as error:
        raise InputError(f"{path} is no HDF5 file, or truncated; download it again ({error})") from error
    with reading(path, "HDF5"), file:
        yield file


def member(group: Any, name: str, path: Path) -> Any:
    """A data set or group of a group, None if there is none; `InputError` for a link into another file."""
    link = group.get(name, getlink=True)
    if isinstance(link, need("h5py").ExternalLink):
        where = f"{path}: field '{group.name.strip('/')}/{name}'".replace("'/", "'")
        raise InputError(f"{where} is a link into the file {link.filename}; store the data in this file")
    return None if link is None else group.get(name)


def read_field(group: Any, field: str, path: Path) -> tuple[np.ndarray, str]:
    """The array of one field of a file or group, and where it is, for messages."""
    where, found = f"{path}: field '{group.name.strip('/')}/{field}'".replace("'/", "'"), member(group, field, path)
    if not isinstance(found, need("h5py").Dataset):
        there = ", ".join(list(group)[:8]) or "nothing"
        raise InputError(f"{where} is missing; the file holds {there}")
    if found.external is not None or found.is_virtual:
        raise InputError(f"{where} lies in other files; store the data in this file")
    stored, size = found.id.get_storage_size(), path.stat().st_size
    if stored > size or found.nbytes > _SMALL + _MOST_COMPRESSED * stored:
        raise InputError(f"{where} is damaged: {found.nbytes:,} bytes are announced, and the file has {min(stored, size):,}")
    try:
        array: np.ndarray = found[()]
    except OSError as error:
        raise InputError(f"{where} cannot be read; the file is truncated or damaged, download it again ({error})") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf":
        raise InputError(f"{where} holds no array of numbers")
    return array, where


def read_clouds(group: Any, field: str, path: Path, dimensions: int = 3) -> np.ndarray:
    """Clouds (S, M, 3), or one (M, 3), float32 with finite coordinates; further columns (normals, colours) are dropped."""
    array, where = read_field(group, field, path)
    needed = "(samples, points, 3)" if dimensions == 3 else "(points, 3)"
    if array.ndim != dimensions or array.shape[-1] < 3 or (dimensions == 3 and array.shape[1] == 0):
        raise InputError(f"{where} has shape {array.shape}; clouds {needed} are needed")
    if array.dtype.kind != "f":
        raise InputError(f"{where} holds {array.dtype}; coordinates are floating-point numbers")
    with np.errstate(over="ignore"):  # overflow gives infinity, which is reported below
        array = np.ascontiguousarray(array[..., :3], dtype=np.float32)
    finite = np.isfinite(array).all(axis=(-1, -2))
    if not finite.all():
        which = f", cloud {int(np.argmin(finite))}" if dimensions == 3 else ""
        raise InputError(f"{where}{which} holds NaN or infinite coordinates")
    return array


def read_labels(group: Any, field: str, path: Path, count: int, classes: int | None) -> np.ndarray:
    """Labels (S,) int64 for `count` clouds, stored as (S,) or (S, 1), each below the number of classes if that is known."""
    array, where = read_field(group, field, path)
    if array.shape not in ((count,), (count, 1)):
        raise InputError(f"{where} has shape {array.shape}; ({count}, 1) is needed, for {count} clouds")
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.floor(array))).all():
        raise InputError(f"{where} holds fractions; labels are whole numbers")
    labels = array.reshape(count).astype(np.int64)
    wrong = (labels < 0) | (labels >= (np.inf if classes is None else classes))
    if wrong.any():
        at = int(np.argmax(wrong))
        known = "from 0 on" if classes is None else f"0 to {classes - 1}, for {classes} classes"
        raise InputError(f"{where}, cloud {at} is labelled {labels[at]}; labels are {known}")
    return labels


def read_per_point(group: Any, field: str, path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers (S, N), one for each point."""
    array, where = read_field(group, field, path)
    if array.shape != shape or array.dtype.kind == "f":
        raise InputError(f"{where} has shape {array.shape}, {array.dtype}; whole numbers {shape} are needed, one per point")
    return array
