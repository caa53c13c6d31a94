"""Shared by all subcommands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reqnn.errors import InputError, printable

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
    """The console for tables: colours only on a terminal without NO_COLOR; wide if it is no terminal."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with 1
            raise BrokenPipeError

    return Quiet() if sys.stdout.isatty() else Quiet(width=200)


@contextmanager
def busy(message: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a message on stderr, if that is a terminal; gives the function that changes the message."""
    from rich.console import Console

    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        yield lambda _: None
        return
    with stderr.status(message) as status:
        yield status.update


def progress(items: Iterable[Any], what: str, total: int) -> Iterator[Any]:
    """The items one by one, with a bar on stderr if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    stderr = Console(stderr=True)
    silent = total < 2 or not stderr.is_terminal
    with Progress(console=stderr, transient=True, disable=silent, redirect_stdout=sys.stdout.isatty()) as bar:
        yield from bar.track(items, total, description=what)


def optional(metavar: str, **more: Any) -> Any:
    """For `Annotated`: an option whose help text names its default."""
    import tyro

    return tyro.conf.arg(metavar=metavar, help_behavior_hint="", **more)


@contextmanager
def writing(option: str) -> Iterator[None]:
    """Inside this context a failure to write is an `InputError` that names the option."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{option}: cannot be written ({error.strerror})") from error


def make_folder(path: str | Path) -> Path:
    """Create the folder of an option --out."""
    with writing(f"--out {path}"):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


def show_written(paths: Iterable[Path]) -> None:
    """Print the paths of written files."""
    for path in paths:
        print(f"wrote {path}")


def write_json(data: dict[str, Any], path: str | Path) -> None:
    """Write JSON to a file, or to stdout if the path is "-"."""
    target, text = Path(path), printable(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
    if path == "-":
        sys.stdout.write(text)
    elif target.exists() and not target.is_file():  # a device or a pipe is written to, not replaced
        with writing(f"--json {path}"):
            target.write_text(text, encoding="utf-8")
    else:
        from reqnn.data.files import atomic_file

        with atomic_file(target) as partial:
            partial.write_text(text, encoding="utf-8")
