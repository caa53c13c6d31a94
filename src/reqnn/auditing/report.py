"""The report of an audit: a row per layer, and a conclusion."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from reqnn.revision.report import table


@dataclass
class AuditRow:
    """One layer; errors are relative, NaN if not measured.

    Attributes:
        name: the submodule; "name#2" for its second call; "(output)" for the network's output.
        kind: "quaternion" (must rotate with its cloud) or "real" (must not change).
        rotation_error: the largest over all rotations and modes.
        permutation_error: the largest over all orders of the points and modes.
        batch_error: a cloud alone against the same cloud in its batch, in eval mode.
        order: "permuted" if the layer follows the order of the points, else "unchanged".
        spread: how much the outputs of different clouds differ, the smallest over the modes.
        mode: "eval" or "train", whichever has the larger of the first two errors.
    """

    name: str
    kind: str
    rotation_error: float = math.inf
    permutation_error: float = math.nan
    batch_error: float = math.nan
    order: str = "unchanged"
    spread: float = math.nan
    mode: str = "eval"


@dataclass
class AuditReport:
    """The outcome of `audit`; `str()` is a table followed by the conclusion.

    Attributes:
        rows: the layers in the order of execution, the output last.
        tolerance: the largest error allowed.
        least_spread: below this spread of the output between clouds, errors mean nothing.
        settings: of the audit.
        notes: what else a user should know.
        stopped: why the network could not be run to its end, or "".
    """

    rows: list[AuditRow]
    tolerance: float
    least_spread: float
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""

    @property
    def rotation_error(self) -> float:
        """The largest of all rows."""
        return self._worst("rotation_error")

    @property
    def permutation_error(self) -> float:
        """The largest of all rows; NaN if the output could not be measured."""
        return self._worst("permutation_error")

    @property
    def batch_error(self) -> float:
        """The largest of all rows; NaN without a batch axis."""
        return self._worst("batch_error")

    @property
    def spread(self) -> float:
        """How much the outputs of different clouds differ, relative to their size."""
        return self.rows[-1].spread

    @property
    def first_rotation_failure(self) -> str | None:
        """The first layer, in the order of execution, that is not equivariant (quaternion) or invariant (real)."""
        return self._first("rotation_error")

    @property
    def first_permutation_failure(self) -> str | None:
        """The first layer that neither follows nor ignores a new order of the points."""
        return self._first("permutation_error")

    @property
    def first_batch_failure(self) -> str | None:
        """The first layer that depends on other clouds of the batch in eval mode."""
        return self._first("batch_error")

    @property
    def ok(self) -> bool:
        """Whether every error is within the tolerance, and the output differs between clouds."""
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence each; empty if nothing is."""
        found = [f"the network could not be run: {self.stopped}"] if self.stopped else []
        properties = {
            "rotation_error": "is not rotation-equivariant (quaternion) or rotation-invariant (real)",
            "permutation_error": "depends on the order of the points",
            "batch_error": "depends on the other clouds of the batch in eval mode",
        }
        found += [self._describe(error, words) for error, words in properties.items() if self._first(error) is not None]
        if found and not self.stopped and self.settings.get("dtype") not in (None, "float64"):
            found[-1] += ". This may be rounding: audit in float64 to find out"
        if not self.stopped and not self.spread >= self.least_spread:
            found.append(
                f"outputs of different clouds differ by only {self.spread:.1e} of their size (at least {self.least_spread:.0e} "
                "is needed): errors of a constant output mean nothing. Train the network, or give clouds that differ"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data; None for what was not measured, "inf" for infinity."""
        summary = ("ok", "rotation_error", "permutation_error", "batch_error", "spread")
        firsts = ("first_rotation_failure", "first_permutation_failure", "first_batch_failure", "problems")
        fields = asdict(self)
        rows = fields.pop("rows")
        return _plain({key: getattr(self, key) for key in (*summary, *firsts)} | fields | {"rows": rows})

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        header = ("layer", "kind", "rotation", "permutation", "batch", "order", "spread", "mode")
        body = [
            (
                row.name,
                row.kind,
                *(self._cell(e) for e in (row.rotation_error, row.permutation_error, row.batch_error)),
                row.order,
                "-" if math.isnan(row.spread) else f"{row.spread:.1e}",
                row.mode,
            )
            for row in self.rows
        ]
        s, problems = self.settings, [f"NOT ok: {problem}" for problem in self.problems]
        conclusion = (
            f"ok: every layer holds to {self.tolerance:.0e} under {s.get('rotations')} random and 24 cube rotations "
            f"(largest error {self.rotation_error:.1e}) and {s.get('permutations')} orders of the points "
            f"({self.permutation_error:.1e}); outputs of different clouds differ by {self.spread:.1e} of their size"
        )
        return "\n".join([*table(header, body), *(f"note: {note}" for note in self.notes), *(problems or [conclusion])])

    def _cell(self, error: float) -> str:
        return "-" if math.isnan(error) else f"{error:.1e}{'' if error <= self.tolerance else ' ✗'}"

    def _describe(self, error: str, words: str) -> str:
        names = [row.name for row in self.rows]
        index = names.index(self._first(error) or "")
        text = f"'{names[index]}' is the first layer that {words} (error {getattr(self.rows[index], error):.1e}); "
        text += f"'{names[index - 1]}' before it still holds" if index else "no layer comes before it"
        output = getattr(self.rows[-1], error)
        if index < len(names) - 1 and output <= self.tolerance:
            text += f"; the output still holds ({output:.1e})"
        return text

    def _worst(self, error: str) -> float:
        errors = [getattr(row, error) for row in self.rows]
        if math.isnan(errors[-1]) and not any(e > self.tolerance for e in errors):
            return math.nan
        return float(max(e for e in errors if not math.isnan(e)))

    def _first(self, error: str) -> str | None:
        return next((row.name for row in self.rows if getattr(row, error) > self.tolerance), None)


def _plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_plain(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return None if math.isnan(tree) else "inf"
    return tree
