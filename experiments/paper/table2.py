"""Table 2 of the paper: parameters and operations of each network, original and REQNN."""

from __future__ import annotations

from typing import Any

import torch

from experiments.harness.table import Cell, Table
from experiments.paper.flops import count_operations
from experiments.paper.printed import TABLE2
from reqnn.data.surfaces import surfaces
from reqnn.revision.report import count_parameters
from reqnn.rules import get_rules
from reqnn.zoo import create_model

MODELS: dict[str, str] = {
    "PointNet++": "pointnet2",
    "DGCNN": "dgcnn",
    "PointConv": "pointconv",
    "PointNet": "pointnet_reconstruction",
}

COLUMNS = ["network", "kind", "parameters", "params (M)", "multiply-adds (G)", "FLOPs (G)", "multiply-adds, REQNN / original"]


def table2(points: int = 1024, num_classes: int = 40) -> Table:
    """Count parameters and operations of the four networks on one cloud, and compare with the paper's Table 2."""
    records: list[dict[str, Any]] = []
    for network, name in MODELS.items():
        records.append(measure(network, name, "original", points, num_classes))
        if network == "PointConv":
            records.append(measure(network, name, "REQNN", points, num_classes, dead_parameters=True))
            records.append(measure(network, name, "REQNN, no dead parameters", points, num_classes))
        else:
            records.append(measure(network, name, "REQNN", points, num_classes))
    originals = {record["network"]: record for record in records if record["kind"] == "original"}
    for record in records:
        record["ratio"] = record["multiply_adds"] / originals[record["network"]]["multiply_adds"]
    return Table(
        "table2",
        "Table 2: parameters and operations of the networks and of their REQNNs",
        COLUMNS,
        [_cells(record) for record in records],
        records,
        {"points": points, "classes": num_classes},
        [
            "FLOPs: the paper's counting (inferred): convolution = multiply-adds + bias, Linear = 2·in·out, batch-norm 2 and a "
            "LeakyReLU module 1 per element, modules with two names counted twice.",
            "PointConv REQNN: the published count has 1,053,440 parameters that no output depends on; without them, below it.",
            "PointNet: the reconstruction network, layers inferred. 286,848 parameters are 0.29 M rounded, 0.28 M cut off.",
        ],
    )


def measure(network: str, name: str, kind: str, points: int, num_classes: int, **options: Any) -> dict[str, Any]:
    """Build one network, run it on one cloud, count."""
    rules = get_rules("paper").with_options(fused=False)  # counts are of the plain algorithm
    model = create_model(name, equivariant=kind != "original", num_classes=num_classes, rules=rules, **options)
    cloud = surfaces(1, points)[0].to(torch.float32)
    operations = count_operations(model, cloud)
    printed = TABLE2[network].get(kind)
    return {
        "network": network,
        "model": name,
        "kind": kind,
        "options": options,
        "parameters": count_parameters(model),
        "multiply_adds": operations.multiply_adds,
        "paper_flops": operations.paper_flops,
        "printed_parameters_millions": printed and printed[0],
        "printed_flops_billions": printed and printed[1],
    }


def _cells(record: dict[str, Any]) -> list[Cell]:
    return [
        Cell(record["network"]),
        Cell(record["kind"]),
        Cell(f"{record['parameters']:,}"),
        Cell(f"{record['parameters'] / 1e6:.2f}", record["printed_parameters_millions"]),
        Cell(f"{record['multiply_adds'] / 1e9:.3f}"),
        Cell(f"{record['paper_flops'] / 1e9:.2f}", record["printed_flops_billions"]),
        Cell(f"{record['ratio']:.2f}×"),
    ]
