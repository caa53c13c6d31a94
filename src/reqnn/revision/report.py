"""What a revision did, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from reqnn.revision.plan import Met
from reqnn.rules.registry import TABLE1


def count_parameters(model: nn.Module) -> int:
    """The number of trained values, each counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def table(header: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a table with aligned columns."""
    rows = [header, *body]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "  ".join("─" * width for width in widths), *lines[1:]]


@dataclass
class RevisionReport:
    """The outcome of `revise`; `str()` is a table.

    Attributes:
        rows: the operations met, in the order of the dry run.
        parameters_before: trainable numbers of the original.
        parameters_after: trainable numbers of the revised network.
        to_real: the layers before which Quaternion2Real stands.
        resized: parameter → its shapes before and after.
        dropped: biases and slopes that went.
        learned: parameters that the rules brought along → their shapes.
        replaced: functions of the model's own code that ours stand in for.
        kept: functions that were recognised, but whose arguments or results did not fit.
        copied: parameters that have the original's values (`init="copy"`).
        notes: what else a user should know.
    """

    rows: list[Met]
    parameters_before: int = 0
    parameters_after: int = 0
    to_real: list[str] = field(default_factory=list)
    resized: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    learned: dict[str, tuple[int, ...]] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def operations(self) -> list[str]:
        """The rows of the paper's Table 1 that the network contains, in the paper's order."""
        met = {row.row for row in self.rows}
        return [row for row in TABLE1 if row in met]

    @property
    def extensions(self) -> list[str]:
        """Operations that were revised by rules beyond the paper."""
        return sorted({row.operation for row in self.rows if row.extension})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "rows": [vars(row) for row in self.rows],
            **{key: value for key, value in vars(self).items() if key != "rows"},
        }

    def __str__(self) -> str:
        header = ("layer", "operation", "rule", "gives")
        body = [(r.layer or "(model)", r.operation, r.row + (" *" if r.extension else ""), r.kind) for r in self.rows]
        lines = table(header, body)
        if self.extensions:
            lines.append("* a rule beyond the paper")
        lines.append(f"parameters: {self.parameters_before:,} → {self.parameters_after:,}")
        if self.learned:
            numbers = sum(math.prod(shape) for shape in self.learned.values())
            lines.append(f"learned by the rules themselves: {len(self.learned)} parameters, {numbers:,} numbers of these")
        lines.append(f"Quaternion2Real before: {', '.join(self.to_real) or '(nowhere: all features are quaternions)'}")
        for title, names in (("replaced", self.replaced), ("left as they are", self.kept)):
            if names:
                lines.append(f"functions {title}: {', '.join(names)}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(line.rstrip() for line in lines)
