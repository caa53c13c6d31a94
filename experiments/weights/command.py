"""`python -m experiments export-weights`: a run as weights that ship, with a model card."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from reqnn.commands.base import OK, Command, busy, console, optional, show_written
from reqnn.train.config import JsonObject


@dataclass(kw_only=True)
class ExportWeights(Command):
    """Export a run as pretrained weights: a safetensors file of at most 12 MB and its model card, as JSON and Markdown.

    The file is tested on the test split of its data set, upright and with each shape rotated ten times, and audited layer by
    layer, for the card. In the package's folder, the default, `reqnn.load(NAME)` and `reqnn predict` find it.

    Examples:
        python -m experiments export-weights runs/table4/longest/modelnet40-dgcnn-reqnn dgcnn.paper.modelnet40 --half
        python -m experiments export-weights runs/mine my-network --options '{"votes": 5}' --out weights
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run's folder, or one of its weights files."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """What the weights are called: dgcnn.paper.modelnet40."""

    out: Annotated[str | None, optional("FOLDER")] = None
    """The folder to write to. Default: that of the installed package."""

    half: bool = False
    """Store the weights in half precision; refused if that costs accuracy."""

    options: JsonObject = field(default_factory=dict)
    """Arguments of the network that differ from training: '{"votes": 5}'."""

    replace: bool = False
    """Replace weights of the same name."""

    copies: int = 10
    """Rotations per test shape."""

    tested: Annotated[str | None, optional("FILE")] = None
    """A result of `paper table4` or `compare` for the same weights, to use instead of a new test."""

    def run(self) -> int:
        """Test, audit, write, show the card."""
        from experiments.weights.export import export_weights

        with busy(f"testing and auditing {self.source}"):
            path = export_weights(
                self.source,
                self.name,
                self.out,
                options=self.options,
                half=self.half,
                replace_existing=self.replace,
                copies=self.copies,
                tested=self.tested,
            )
        screen = console()
        screen.print(path.with_suffix(".md").read_text(encoding="utf-8"), highlight=False, markup=False, soft_wrap=True)
        show_written(path.with_suffix(suffix) for suffix in (".safetensors", ".json", ".md"))
        return OK
