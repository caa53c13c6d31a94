"""Read files, write them atomically, and cache arrays that are slow to compute."""

from __future__ import annotations

import hashlib
import json
import uuid
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from reqnn.errors import InputError, ReqnnError

VERSION = 2  # increase it when the clouds change: invalidates the cache


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Inside this context whatever a library raises about a damaged file becomes an `InputError` that names the file."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    except ReqnnError:
        raise
    except MemoryError as error:
        raise InputError(f"{path} says that it holds more than the memory here ({error}); is it damaged?") from error
    except Exception as error:  # the readers raise what they like
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} cannot be read as {what}, or is damaged or truncated: {said}") from error


def read_bytes(path: Path) -> bytes:
    """The content of a file; `InputError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check that it is there, and its permissions") from error


def read_json(path: str | Path, what: str) -> dict[str, Any]:
    """The JSON object in a file; `InputError` if it is missing, damaged or something else."""
    with reading(path, what):
        found = json.loads(read_bytes(Path(path)))
    if not isinstance(found, dict):
        raise InputError(f"{path} cannot be read as {what}: it holds a {type(found).__name__}, not a JSON object")
    return found


def read_lines(path: Path) -> list[str]:
    """The non-empty lines of a text file, stripped; `InputError` if there are none."""
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text file ({error})") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} is empty; one name per line is needed")
    return lines


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it is renamed at the end, or removed if writing fails."""
    partial = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch(exist_ok=False)
        yield partial
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another folder") from error
    finally:
        if partial.exists():
            partial.unlink()


def cached(
    folder: Path, files: Sequence[Path], settings: Sequence[Any], make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of `make`, from the cache if it has them; a damaged or unwritable cache is no error.

    The key is a hash of the settings and of the files: paths, sizes, modification times.
    """
    listing = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.sha256(json.dumps([VERSION, listing, list(settings)]).encode()).hexdigest()[:32]
    path = folder / f"{key}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        arrays = make()
    with suppress(InputError), atomic_file(path) as partial, partial.open("wb") as target:
        np.savez(target, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
    return arrays
