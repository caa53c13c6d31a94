"""The measurements of one layer."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from reqnn.auditing.report import AuditRow
from reqnn.revision.clouds import Clouds
from reqnn.revision.compare import (
    Property,
    Value,
    block_of,
    relative_error,
    relative_spread,
    scale_of,
    values_of,
    ways_to_reorder,
    ways_to_rotate,
)
from reqnn.revision.watched import OUTPUT


class Layer:
    """One call of one layer in one mode: its output for the clouds as given, compared with its outputs for others.

    Args:
        output: its output; copied, since the network may write into it. A `broken` layer has none that can be compared.
        tolerance: the largest error allowed.
        free: whether real features may rotate too (networks that were not revised, and outputs).
    """

    def __init__(
        self, name: str, output: Any, clouds: Clouds, tolerance: float, free: bool = False, broken: bool = False
    ) -> None:
        self.name, self.clouds, self.broken = name, clouds, broken
        self.values = values_of(output, copy=True)
        self.scales = [scale_of(value.data) for value in self.values]
        free = free or name == OUTPUT
        self.rotation = [Property(ways_to_rotate(v, clouds.count, free), tolerance) for v in self.values]
        self.order = [Property(ways_to_reorder(v, clouds.count, clouds.sizes), tolerance) for v in self.values]
        self.batch_error = self.spread = math.nan

    def compare(self, output: Any, what: Literal["rotation", "order"], done: Any) -> None:
        """Compare with the output for clouds whose rotation or order was changed as `done`."""
        pairs = self._pairs(output)
        for i, found in enumerate(self.rotation if what == "rotation" else self.order):
            if i < len(pairs):
                value, reference, scale = pairs[i]
                found.compare(value.data, reference.data, scale, done)
            else:
                found.fail()

    def exchange(self, output: Any) -> None:
        """Compare with the output for other clouds."""
        spreads = [relative_spread(value.data, reference.data, scale) for value, reference, scale in self._pairs(output)]
        self.spread = _largest(self.spread, *spreads)

    def separate(self, output: Any, index: int, others: list[Layer]) -> None:
        """Compare with the output for one cloud alone; `others`: calls of this layer that may have seen it."""
        errors = []
        for layer in (self, *others):
            blocks = [
                (v, block_of(reference.data, v.data.shape, self.clouds.count, index, v.hidden), scale)
                for v, reference, scale in layer._pairs(output)
            ]
            errors.append(_largest(*(relative_error(v.data, block, scale) for v, block, scale in blocks)))
        self.batch_error = _largest(self.batch_error, np.fmin.reduce(errors))

    def row(self, mode: str) -> AuditRow:
        """The row of the report."""
        if self.broken:
            return AuditRow(self.name, "quaternion", mode=mode)
        kind = "quaternion" if any(value.quaternion for value in self.values) else "real"
        order = "permuted" if any(order.way.startswith("permuted") for order in self.order) else "unchanged"
        rotation, permutation = (_largest(*(p.error for p in properties)) for properties in (self.rotation, self.order))
        return AuditRow(self.name, kind, rotation, permutation, self.batch_error, order, self.spread, mode)

    def _pairs(self, output: Any) -> list[tuple[Value, Value, float]]:
        values = values_of(output)
        if [v.quaternion for v in values] != [v.quaternion for v in self.values]:
            return []
        return list(zip(values, self.values, self.scales, strict=True))


def merged_rows(modes: dict[str, dict[str, Layer]]) -> list[AuditRow]:
    """One row per layer, over all modes: the largest errors, the smallest spread; the output last."""
    rows: dict[str, AuditRow] = {}
    for mode, layers in modes.items():
        for name, layer in layers.items():
            b = layer.row(mode)
            a = rows.setdefault(name, b)
            worst_a, worst_b = (_largest(row.rotation_error, row.permutation_error) for row in (a, b))
            rows[name] = AuditRow(
                name,
                "quaternion" if "quaternion" in (a.kind, b.kind) else "real",
                _largest(a.rotation_error, b.rotation_error),
                _largest(a.permutation_error, b.permutation_error),
                _largest(a.batch_error, b.batch_error),
                "permuted" if "permuted" in (a.order, b.order) else "unchanged",
                float(np.fmin(a.spread, b.spread)),
                b.mode if worst_b > worst_a else a.mode,
            )
    rows[OUTPUT] = rows.pop(OUTPUT, AuditRow(OUTPUT, "real", mode=next(iter(modes))))
    # layers without floating-point output have nothing to measure
    return [row for row in rows.values() if not math.isnan(row.rotation_error) or row.name == OUTPUT]


def _largest(*numbers: float) -> float:
    """Without NaNs, which were not measured."""
    return float(np.fmax.reduce([math.nan, *numbers]))
