"""Write the runs of the comparison as cells of a queue: `python -m experiments.data_efficiency.cells`.

The same DGCNN, optimizer, epochs and clouds for all; only the rules and the rotations in training differ.
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("cells.json")

METHODS: dict[str, tuple[str, list[str]]] = {
    "ordinary": ("ordinary", []),
    "ordinary-rotated": ("ordinary, trained with arbitrary rotations", ["--protocol", "AR"]),
    "frames": ("ordinary, in PCA frames", ["--equivariant", "--rules", "frames"]),
    "paper": ("REQNN by paper", ["--equivariant", "--rules", "paper", "--rule-options", json.dumps({"c": 0.1})]),
    "full": ("REQNN by full", ["--equivariant", "--rules", "full", "--rule-options", json.dumps({"unit": "pool"})]),
    "vector-neurons": ("REQNN by vector-neurons", ["--equivariant", "--rules", "vector-neurons"]),
}
"""Name → how the tables call it, and its arguments of `reqnn train`."""

EPOCHS = {0.03: 80, 0.1: 40, 0.3: 24, 1.0: 12}
"""Fraction of the training shapes → epochs, in the order in which they are trained."""

SHARED = ["--model", "dgcnn", "--data", "modelnet40", "--points", "1024"]
SHARED += ["--options", json.dumps({"width": 0.25, "k": 10, "sample": 128, "dropout": 0.0})]
SHARED += ["--optimizer", "muon", "--lr", "0.01", "--schedule", "onecycle", "--batch", "32", "--threads", "1"]
SHARED += ["--scale", "0.2", "--jitter", "0.01"]


def name_of(method: str, fraction: float) -> str:
    """The folder of a run."""
    return f"{method}-{fraction:g}"


def cells() -> list[dict]:
    """All runs, in their order."""
    return [
        {
            "name": name_of(method, fraction),
            "result": f"results/data_efficiency.json#{name_of(method, fraction)}",
            "purpose": f"{title}, {fraction:.0%} of the training shapes",
            "target": None,
            "arguments": [*arguments, *SHARED, "--fraction", str(fraction), "--epochs", str(epochs)],
        }
        for fraction, epochs in EPOCHS.items()
        for method, (title, arguments) in METHODS.items()
        if fraction == 0.1 or method != "vector-neurons"
    ]


if __name__ == "__main__":
    FILE.write_text(json.dumps(cells(), indent=2) + "\n", encoding="utf-8")
