"""Table 1 of the paper: which operation has which property, found by trying each one in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from experiments.harness.table import Cell, Table
from experiments.paper.operations import OPERATIONS, VECTORS, Operation
from experiments.paper.printed import NO, TABLE1, UNRELATED, YES
from reqnn.data.surfaces import surfaces
from reqnn.quaternion import random_matrix

TOLERANCE = 1e-10

COLUMNS = [
    "operation",
    "rotation equivariance",
    "permutation invariance",
    "rotation error, original",
    "revised",
    "permutation error, original",
    "revised",
]


def table1(
    rotations: int = 8,
    seed: int = 0,
    points: int = 96,
    tolerance: float = TOLERANCE,
    operations: Sequence[Operation] = OPERATIONS,
) -> Table:
    """Measure both properties of each operation, before and after its revision, and compare with the paper's Table 1."""
    generator = torch.Generator().manual_seed(seed)
    matrices = random_matrix((rotations,), generator, torch.float64)
    orders = [torch.randperm(points, generator=generator) for _ in range(rotations)]
    x = example(points, seed)
    rows, records = [], []
    for operation in operations:
        record: dict[str, Any] = {"operation": operation.row}
        for kind, function in (("original", operation.original), ("revised", operation.revised)):
            with _one_thread():
                errors = (
                    rotation_error(function, x, matrices, operation.vectors),
                    permutation_error(function, x, orders, operation.per_point),
                )
            record[kind] = {
                "rotation_error": errors[0],
                "permutation_error": errors[1],
                "rotation_equivariance": YES if errors[0] <= tolerance else NO,
                "permutation_invariance": _permutation_symbol(errors[1], tolerance, operation.within_field),
            }
        record["printed"] = TABLE1.get(operation.row)
        rows.append(_cells(record, tolerance))
        records.append(record)
    return Table(
        "table1",
        "Table 1: rotation equivariance and permutation invariance of layerwise operations",
        COLUMNS,
        rows,
        records,
        {"rotations": rotations, "seed": seed, "points": points, "dtype": "float64", "tolerance": tolerance},
        [
            f"✓ and × are measured: error ‖f(Tx) − T f(x)‖ / ‖f(x)‖, largest of {rotations} transformations T, against "
            f"{tolerance:g}.",
            "– as in the paper: the operation acts within a receptive field, so the order of the points is no concern of it. "
            "Its error is measured all the same; one above the tolerance would be printed ×.",
            "Without tied distances: there the original k-NN chooses by storage order, the revised one does not.",
        ],
    )


def example(points: int, seed: int = 0) -> Tensor:
    """Two clouds on surfaces with vector features: (2, points, 3·V), coordinates first."""
    xyz, _ = surfaces(2, points, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    features = torch.randn(2, points, 3 * (VECTORS - 1), generator=generator, dtype=torch.float64)
    return torch.cat([xyz, features], dim=-1)


def rotation_error(function: Callable[[Tensor], Tensor], x: Tensor, rotations: Tensor, vectors: bool) -> float:
    """The largest ‖f(Rx) − R f(x)‖ / ‖f(x)‖ over rotations R (R, 3, 3); without `vectors`, R leaves f(x) as it is."""
    expected = function(x)
    return max(_relative(function(_rotate(x, r)), _rotate(expected, r) if vectors else expected) for r in rotations)


def permutation_error(function: Callable[[Tensor], Tensor], x: Tensor, orders: list[Tensor], per_point: bool) -> float:
    """The largest ‖f(Px) − P f(x)‖ / ‖f(x)‖ over orders P; without `per_point`, P leaves f(x) as it is."""
    expected = function(x)
    return max(_relative(function(x[:, p]), expected[:, p] if per_point else expected) for p in orders)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For tensors this small, threads cost more than the computation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _rotate(x: Tensor, rotation: Tensor) -> Tensor:
    return (x.unflatten(-1, (-1, 3)) @ rotation.T).flatten(-2)


def _relative(value: Tensor, expected: Tensor) -> float:
    return float(torch.linalg.vector_norm(value - expected) / torch.linalg.vector_norm(expected))


def _permutation_symbol(error: float, tolerance: float, within_field: bool) -> str:
    if error > tolerance:
        return NO
    return UNRELATED if within_field else YES


def _cells(record: dict[str, Any], tolerance: float) -> list[Cell]:
    original, revised, printed = record["original"], record["revised"], record["printed"] or (None, None)
    cells = [
        Cell(record["operation"]),
        Cell(original["rotation_equivariance"], printed[0]),
        Cell(original["permutation_invariance"], printed[1]),
    ]
    for name in ("rotation_error", "permutation_error"):
        cells.append(Cell(f"{original[name]:.1e}"))
        failed = f" {NO}" if revised[name] > tolerance else ""
        cells.append(Cell(f"{revised[name]:.1e}{failed}"))
    return cells
