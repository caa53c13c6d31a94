"""Arrays that are slow to make, kept on disk; where that cannot be, they are made again."""

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

VERSION = 1  # of the way clouds are made: a change makes all cached ones stale


def cached(folder: Path | None, key: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays that `make` gives, from the cache where it has them; a damaged or unwritable cache is no error."""
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
    """A name that changes with the files (paths, sizes, times of change) and with the settings."""
    listing = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    text = json.dumps([VERSION, listing, dict(settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
