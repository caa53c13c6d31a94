"""A lock on a training run, so that only one process trains it; released by the system when the process ends."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from reqnn.errors import InputError


@contextmanager
def locked(path: Path) -> Iterator[str | None]:
    """Hold the lock if it is free: yields None if we hold it, else who does."""
    lock, about = FileLock(path), path.with_suffix(".holder")  # separate: some versions of filelock empty the lock file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        yield about.read_text(encoding="utf-8") if about.exists() else "another process"
        return
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); name another folder with --runs") from error
    try:
        about.write_text(f"{platform.node()}, process {os.getpid()}", encoding="utf-8")
        yield None
    finally:
        about.unlink(missing_ok=True)
        lock.release()
