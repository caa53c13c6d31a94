"""The subcommands of `reqnn`, one file each; to add one, add a file here and a line in `COMMANDS`.

A command is a dataclass: its fields are its options, its docstring is its help, its `run` returns the exit code.
Heavy imports (torch, scikit-learn, matplotlib) go inside functions, so that ``reqnn --help`` is instant.
"""

from __future__ import annotations

from reqnn.commands.align import Align
from reqnn.commands.audit import Audit
from reqnn.commands.base import Command
from reqnn.commands.data import Data
from reqnn.commands.demo import Demo
from reqnn.commands.embed import Embed
from reqnn.commands.eval import Eval
from reqnn.commands.export import Export
from reqnn.commands.models import Models
from reqnn.commands.predict import Predict
from reqnn.commands.reconstruct import Reconstruct
from reqnn.commands.revise import Revise
from reqnn.commands.train import Train

COMMANDS: dict[str, type[Command]] = {
    "train": Train,
    "eval": Eval,
    "predict": Predict,
    "export": Export,
    "embed": Embed,
    "audit": Audit,
    "revise": Revise,
    "align": Align,
    "reconstruct": Reconstruct,
    "data": Data,
    "models": Models,
    "demo": Demo,
}

__all__ = ["COMMANDS", "Command"]
