"""Write the runs of the comparison as cells of a queue: `python -m experiments.segmentation.cells`.

Trained without rotations. The same clouds, epochs and optimizer for all rules of one network; only the rules differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("cells.json")

METHODS: dict[str, tuple[str, list[str]]] = {
    "full": ("REQNN by full", ["--equivariant", "--rules", "full", "--rule-options", json.dumps({"unit": "pool"})]),
    "ordinary": ("ordinary", []),
    "paper": ("REQNN by paper", ["--equivariant", "--rules", "paper", "--rule-options", json.dumps({"c": 0.1})]),
}
"""Name → how the tables call it, and its arguments of `reqnn train`."""

NETWORKS: dict[str, tuple[str, dict[str, Any], int]] = {
    "dgcnn_parts": ("DGCNN", {"width": 0.5, "k": 10, "dropout": 0.0}, 8),
    "pointnet2_parts": (
        "PointNet++",
        {"width": 0.5, "npoint": [192, 48], "radius": [0.25, 0.5], "nsample": [16, 24], "dropout": 0.0},
        8,
    ),
}
"""Model → how the tables call it, its options, and the epochs."""

SHARED = ["--data", "shapenet-part", "--points", "512", "--sampled-from", "1024", "--optimizer", "muon", "--lr", "0.01"]
SHARED += ["--schedule", "onecycle", "--batch", "32", "--ema", "0.999", "--threads", "1", "--scale", "0.2", "--jitter", "0.005"]


def name_of(network: str, method: str) -> str:
    """The folder of a run."""
    return f"{network}-{method}"


def cells() -> list[dict[str, Any]]:
    """All runs, in their order."""
    return [
        {
            "name": name_of(network, method),
            "result": f"results/segmentation.json#{name_of(network, method)}",
            "purpose": f"part segmentation in any orientation: {title}, {kind}",
            "target": 78.0 if method == "full" else None,
            "arguments": ["--model", network, *arguments, *SHARED, "--options", json.dumps(options), "--epochs", str(epochs)],
        }
        for network, (title, options, epochs) in NETWORKS.items()
        for method, (kind, arguments) in METHODS.items()
    ]


if __name__ == "__main__":
    FILE.write_text(json.dumps(cells(), indent=2) + "\n", encoding="utf-8")
