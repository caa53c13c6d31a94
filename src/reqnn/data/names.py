"""Text files with a name a line: class names, lists of files, splits."""

from __future__ import annotations

from pathlib import Path

from reqnn.errors import InputError


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, without blanks and empty lines; `InputError` where there are none."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check that it is there, and its permissions") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text file ({error})") from error
    lines = [line for line in lines if line]
    if not lines:
        raise InputError(f"{path} is empty; a name a line is needed")
    return lines
