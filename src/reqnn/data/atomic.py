"""Files that appear whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reqnn.errors import InputError


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """An empty file beside `path` to write to; it takes that name at the end, and goes where writing fails."""
    partial = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch(exist_ok=False)
        yield partial
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); name a folder that can, with room") from error
    finally:
        if partial.exists():
            partial.unlink()
