"""A lock on a run's folder, so that only one process trains it; released by the system when the process ends."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reqnn.data.files import atomic_file
from reqnn.errors import InputError
from reqnn.extras import need


@contextmanager
def locked(path: Path) -> Iterator[str | None]:
    """Hold the lock if it is free: yields None if we hold it, else who does."""
    filelock = need("filelock")
    # the holder is in a file of its own: filelock may empty the lock file
    lock, about = filelock.FileLock(path), path.with_suffix(".holder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        try:
            holder = about.read_text(encoding="utf-8", errors="replace")
        except OSError:
            holder = "another process"
        yield holder
        return
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another folder") from error
    try:
        with atomic_file(about) as partial:
            partial.write_text(f"{platform.node()}, process {os.getpid()}", encoding="utf-8")
        yield None
    finally:
        about.unlink(missing_ok=True)
        lock.release()
