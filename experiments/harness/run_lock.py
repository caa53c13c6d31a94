"""A lock on a training run: of the processes that share a folder, one trains it and the others leave it.

The system releases the lock with its process, however that ends.
"""

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
    """Hold the lock, if it is free: yields None if it is ours, else who holds it."""
    lock, about = FileLock(path), path.with_suffix(".holder")  # apart: some versions of filelock empty the lock's own file
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
