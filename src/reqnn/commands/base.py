"""Shared by all subcommands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

OK, NOT_OK, BAD_INPUT, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


@dataclass(kw_only=True)
class Command:
    """A subcommand."""

    debug: bool = False
    """Show the traceback of an error."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Command | None:
        """Defaults that depend on other arguments."""
        return None

    def run(self) -> int:
        """Do the work; return the exit code."""
        raise NotImplementedError


def console() -> Console:
    """The console for results: colours only on a terminal without NO_COLOR; wide if it is no terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=200)


@contextmanager
def busy(message: str) -> Iterator[None]:
    """Show a spinner with a message on stderr, if that is a terminal."""
    from rich.console import Console

    stderr = Console(stderr=True)
    if stderr.is_terminal:
        with stderr.status(message):
            yield
    else:
        yield


def optional(metavar: str, **more: Any) -> Any:
    """For `Annotated`: an option whose help text names its default."""
    import tyro

    return tyro.conf.arg(metavar=metavar, help_behavior_hint="", **more)


def make_folder(path: str | Path) -> Path:
    """Create the folder of an option --out."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {path}: the folder cannot be created ({error.strerror})") from error
    return Path(path)


def show_written(paths: Iterable[Path]) -> None:
    """Print the paths of written files."""
    for path in paths:
        console().print(f"wrote {path}", highlight=False, soft_wrap=True)


def write_json(data: dict[str, Any], path: str) -> None:
    """Write JSON to a file, or to stdout if the path is "-"."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--json {path}: the file cannot be written ({error.strerror})") from error
