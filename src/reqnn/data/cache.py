"""A disk cache for arrays that are slow to compute."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reqnn.data.atomic import atomic_file
from reqnn.errors import InputError

VERSION = 1  # increase it when the clouds change: invalidates the cache


def cached(folder: Path | None, key: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of `make`, from the cache if it has them; a damaged or unwritable cache is no error."""
    if folder is None:
        return make()
    path = folder / f"{key}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        arrays = make()
    try:
        with atomic_file(path) as partial, partial.open("wb") as target:
            np.savez(target, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
    except InputError:
        pass
    return arrays


def cache_key(files: Sequence[Path], settings: Mapping[str, Any]) -> str:
    """A hash of the files (paths, sizes, modification times) and the settings."""
    listing = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    text = json.dumps([VERSION, listing, dict(settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
