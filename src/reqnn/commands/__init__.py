"""The subcommands of `reqnn`; to add one, add its class to `COMMANDS`.

A command is a dataclass: its fields are its options, its docstring is its help, its `run` returns the exit code.
Heavy imports (torch, scikit-learn, matplotlib) go inside functions, so that ``reqnn --help`` is instant.
"""

from __future__ import annotations

from reqnn.commands.align import Align
from reqnn.commands.base import Command
from reqnn.commands.data import Data
from reqnn.commands.embed import Embed
from reqnn.commands.eval import Eval
from reqnn.commands.export import Export
from reqnn.commands.networks import Audit, Models, Revise
from reqnn.commands.predict import Predict
from reqnn.commands.train import Train
from reqnn.commands.view import View

COMMANDS: dict[str, type[Command]] = {
    kind.__name__.lower(): kind for kind in (Train, Eval, Predict, Export, Embed, Audit, Revise, Align, Data, Models, View)
}

__all__ = ["COMMANDS", "Command"]
