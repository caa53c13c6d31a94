"""The command `reqnn`: parse, run a subcommand of `reqnn.commands`; errors become messages and exit codes."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union

from reqnn.commands import COMMANDS, Command
from reqnn.commands.base import BAD_INPUT, INTERRUPTED, OK, UNEXPECTED
from reqnn.commands.experiments import hand_over
from reqnn.errors import ReqnnError, Stopped
from reqnn.memory import keep_freed_memory
from reqnn.version import __version__

DESCRIPTION = "Rotation-equivariant, permutation-invariant networks for 3D point clouds, revised from ordinary ones."
Commands = Mapping[str, type[Command]]


def parse(arguments: Sequence[str], commands: Commands = COMMANDS, prog: str = "reqnn", text: str = DESCRIPTION) -> Command:
    """The subcommand that the arguments name; exits with 2 if they do not parse, with 0 after --help."""
    import tyro

    named = next((word for word in arguments if not word.startswith("-")), "")
    known = []
    for name, kind in commands.items():
        whole = inspect.cleandoc(kind.__doc__ or "")
        # The list of commands has their first sentences; the help of a command has all, with its defaults.
        shown: dict[str, Any] = {"description": whole if name == named else whole.partition("\n\n")[0]}
        if name == named and (default := kind.defaults(arguments)) is not None:
            shown["default"] = default
        known.append(Annotated[kind, tyro.conf.subcommand(name, **shown)])
    choices: Any = Union[tuple(known)]  # noqa: UP007 - from a tuple: the commands are data
    config = (tyro.conf.FlagCreatePairsOff,)
    command: Command = tyro.cli(choices, args=arguments, prog=prog, description=text, config=config)
    return command


def main(
    arguments: Sequence[str] | None = None, commands: Commands = COMMANDS, prog: str = "reqnn", text: str = DESCRIPTION
) -> int:
    """Run a command; the exit code: 0 ok, 1 an audit that fails, 2 bad input or no rule, 3 unexpected, 130 interrupted."""
    words, debug = sys.argv[1:] if arguments is None else list(arguments), False
    try:
        try:
            if words == ["--version"]:
                print(f"reqnn {__version__}")
                return OK
            if commands is COMMANDS and (code := hand_over(words)) is not None:
                return code
            if commands is COMMANDS:  # benchmarks among the experiments run as a user's process does
                keep_freed_memory()
            command = parse(words, commands, prog, text)
            debug = command.debug
            return command.run()
        finally:
            sys.stdout.flush()
    except (KeyboardInterrupt, Stopped):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if debug:
            raise
        if isinstance(error, (ReqnnError, OSError)):  # OSError: a full disk, no permission
            print(f"error: {error}", file=sys.stderr)
            return BAD_INPUT
        print(f"error: {type(error).__name__}: {error}\n(--debug shows where)", file=sys.stderr)
        return UNEXPECTED


if __name__ == "__main__":
    sys.exit(main())
