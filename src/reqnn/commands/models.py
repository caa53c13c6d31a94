"""`reqnn models`: list the networks that can be built by name."""

from __future__ import annotations

from dataclasses import dataclass

from reqnn.commands.base import OK, Command, console


@dataclass(kw_only=True)
class Models(Command):
    """List the networks that `--model` and `reqnn.create_model` take, with their options and numbers of parameters.

    Examples:
        reqnn models
    """

    def run(self) -> int:
        """Print a table."""
        import torch
        from rich.table import Table

        from reqnn.models.registry import list_models, model_entry
        from reqnn.revision.report import count_parameters
        from reqnn.zoo import create_model

        table = Table("name", "what it is", "parameters", "options")
        for name in list_models():
            entry = model_entry(name)
            with torch.device("meta"):
                parameters = count_parameters(create_model(name))
            summary = (entry.build.__doc__ or "").strip().splitlines()[0]
            fixed = "".join(f" ({key}={value})" for key, value in entry.fixed.items())
            table.add_row(name, summary + fixed, f"{parameters:,}", ", ".join(entry.options))
        console().print(table)
        return OK
