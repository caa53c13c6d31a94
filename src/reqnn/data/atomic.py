"""Atomic writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reqnn.errors import InputError


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
