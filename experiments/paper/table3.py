"""Table 3 of the paper: which network contains which operation, from what `revise` met in it."""

from __future__ import annotations

from typing import Any

from experiments.harness.table import Cell, Table
from experiments.paper.printed import NETWORKS, TABLE3, YES
from reqnn.rules.registry import TABLE1
from reqnn.zoo import create_model

MODELS: dict[str, str] = {"PointNet++": "pointnet2", "DGCNN": "dgcnn", "PointConv": "pointconv", "PointNet": "pointnet"}


def table3(width: float = 1.0) -> Table:
    """Revise the four networks and list the operations of Table 1 that the revision met.

    `width` scales the hidden widths of the networks; it changes no operation.
    """
    met = {network: _operations(MODELS[network], width) for network in NETWORKS}
    rows, records = [], []
    for operation in TABLE1:
        record: dict[str, Any] = {"operation": operation}
        row = [Cell(operation)]
        for network in NETWORKS:
            contains, printed = operation in met[network], network in TABLE3[operation]
            row.append(Cell(YES if contains else "", YES if printed else ""))
            record[network] = {"contains": contains, "printed": printed}
        rows.append(row)
        records.append(record)
    return Table(
        "table3",
        "Table 3: layerwise operations of the networks",
        ["operation", *NETWORKS],
        rows,
        records,
        {"width": width},
        ["Met in the dry run of `reqnn.revise`, in the quaternion and in the real part. PointNet: the classification network."],
    )


def _operations(name: str, width: float) -> list[str]:
    net: Any = create_model(name, equivariant=True, width=width)
    return list(net.report.operations)
