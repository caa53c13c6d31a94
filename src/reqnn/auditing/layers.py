"""The measurements of one layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from reqnn.auditing.report import AuditRow
from reqnn.revision.clouds import Clouds, Orders
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
        output: its output; copied, since the network may write into it.
        tolerance: the largest error allowed.
        free: whether real features may rotate too (networks that were not revised, and outputs).
    """

    def __init__(self, name: str, output: Any, clouds: Clouds, tolerance: float, free: bool) -> None:
        self.name, self.clouds = name, clouds
        self.values = values_of(output, copy=True)
        self.scales = [scale_of(value.data) for value in self.values]
        free = free or name == OUTPUT
        self.rotation = [Property(ways_to_rotate(v, clouds.count, free), tolerance) for v in self.values]
        self.order = [Property(ways_to_reorder(v, clouds.count, clouds.sizes), tolerance) for v in self.values]
        self.batch_error, self.spread, self.unmeasurable = math.nan, math.nan, False

    @classmethod
    def broken(cls, name: str) -> Layer:
        """A layer without an output to compare."""
        self = cls.__new__(cls)
        self.name, self.values, self.scales, self.rotation, self.order = name, [], [], [], []
        self.batch_error, self.spread, self.unmeasurable = math.nan, math.nan, True
        return self

    def rotate(self, output: Any, rotations: Tensor) -> None:
        """Compare with the output for clouds rotated by `rotations`, (B, 3, 3)."""
        self._compare(self.rotation, output, rotations)

    def reorder(self, output: Any, orders: Orders) -> None:
        """Compare with the output for points in new orders."""
        self._compare(self.order, output, orders)

    def exchange(self, output: Any) -> None:
        """Compare with the output for other clouds."""
        for value, reference, scale in self._pairs(output):
            spread = relative_spread(value.data, reference.data, scale)
            self.spread = spread if math.isnan(self.spread) else max(self.spread, spread)

    def separate(self, output: Any, index: int, others: list[Layer]) -> None:
        """Compare with the output for one cloud alone; `others`: calls of this layer that may have seen it."""
        errors = [layer._alone_error(output, index) for layer in (self, *others)]
        error = min((e for e in errors if not math.isnan(e)), default=math.nan)
        if not math.isnan(error):
            self.batch_error = error if math.isnan(self.batch_error) else max(self.batch_error, error)

    def row(self, mode: str) -> AuditRow:
        """The row of the report."""
        if self.unmeasurable:
            return AuditRow(self.name, "quaternion", mode=mode)
        kind = "quaternion" if any(value.quaternion for value in self.values) else "real"
        order = "permuted" if any(order.way.startswith("permuted") for order in self.order) else "unchanged"
        rotation, permutation = (_largest([p.error for p in properties]) for properties in (self.rotation, self.order))
        return AuditRow(self.name, kind, rotation, permutation, self.batch_error, order, self.spread, mode)

    def _pairs(self, output: Any) -> list[tuple[Value, Value, float]]:
        values = values_of(output)
        if [v.quaternion for v in values] != [v.quaternion for v in self.values]:
            return []
        return list(zip(values, self.values, self.scales, strict=True))

    def _compare(self, properties: list[Property], output: Any, done: Any) -> None:
        pairs = self._pairs(output)
        for i, found in enumerate(properties):
            if i < len(pairs):
                value, reference, scale = pairs[i]
                found.compare(value.data, reference.data, scale, done)
            else:
                found.fail()

    def _alone_error(self, output: Any, index: int) -> float:
        if self.unmeasurable:
            return math.nan
        errors = []
        for value, reference, scale in self._pairs(output):
            block = block_of(reference.data, value.data.shape, self.clouds.count, index, value.hidden)
            errors.append(relative_error(value.data, block, scale))
        return _largest(errors)


def merged_rows(modes: dict[str, dict[str, Layer]]) -> list[AuditRow]:
    """One row per layer, over all modes: the largest errors, the smallest spread; the output last."""
    rows: dict[str, AuditRow] = {}
    for mode, layers in modes.items():
        for name, layer in layers.items():
            row = layer.row(mode)
            rows[name] = _merged(rows[name], row) if name in rows else row
    if OUTPUT in rows:
        rows[OUTPUT] = rows.pop(OUTPUT)
    else:
        rows[OUTPUT] = AuditRow(OUTPUT, "real", mode=next(iter(modes)))
    # layers without floating-point output have nothing to measure
    return [row for row in rows.values() if not math.isnan(row.rotation_error) or row.name == OUTPUT]


def _merged(a: AuditRow, b: AuditRow) -> AuditRow:
    def worst(row: AuditRow) -> float:
        return _largest([row.rotation_error, row.permutation_error])

    return AuditRow(
        a.name,
        "quaternion" if "quaternion" in (a.kind, b.kind) else "real",
        _largest([a.rotation_error, b.rotation_error]),
        _largest([a.permutation_error, b.permutation_error]),
        _largest([a.batch_error, b.batch_error]),
        "permuted" if "permuted" in (a.order, b.order) else "unchanged",
        _over([a.spread, b.spread], min),
        b.mode if worst(b) > worst(a) else a.mode,
    )


def _largest(errors: list[float]) -> float:
    return _over(errors, max)


def _over(numbers: list[float], choose: Callable[..., float]) -> float:
    """The largest or smallest, without NaNs (not measured)."""
    return choose((number for number in numbers if not math.isnan(number)), default=math.nan)
