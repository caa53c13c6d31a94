"""Write the runs as cells of a queue: `python -m experiments.frames.cells [RUNS]`.

For each network: trained upright; its weights fine-tuned in frames; and `full` from scratch in about the same time as the
longer fine-tuning, and as all epochs together. A training step in frames costs as much as upright; by `full` a third more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("cells.json")
RUNS = "runs/frames"

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "dgcnn": ("DGCNN", {"width": 0.25, "k": 10, "sample": 128, "dropout": 0.0}),
    "pointnet2": ("PointNet++", {"width": 0.25, "npoint": [128, 32], "nsample": [16, 16], "dropout": 0.0}),
}
"""Name in `reqnn models` → how the table calls it, and its options."""

_FULL = ["--equivariant", "--rules", "full", "--rule-options", json.dumps({"unit": "pool"}), "--lr", "0.01"]
_TUNED = ["--equivariant", "--rules", "frames", "--start-from", "{runs}/{model}-upright"]
_TUNED += ["--lr", "0.002", "--adamw-lr", "0.0006"]

METHODS: dict[str, tuple[str, list[str], int]] = {
    "upright": ("ordinary, trained upright", ["--lr", "0.01"], 8),
    "tuned-1": ("in frames, 1 epoch of fine-tuning", _TUNED, 1),
    "tuned-5": ("in frames, 5 epochs of fine-tuning", _TUNED, 5),
    "full-4": ("`full` from scratch, time of 5 epochs in frames", _FULL, 4),
    "full-10": ("`full` from scratch, time of all epochs", _FULL, 10),
}
"""Name → how the table calls it, its arguments of `reqnn train`, epochs."""

SHARED = ["--data", "modelnet40", "--points", "1024", "--optimizer", "muon", "--schedule", "onecycle", "--batch", "32"]
SHARED += ["--threads", "1", "--scale", "0.2", "--jitter", "0.01"]


def cells(runs: str = RUNS) -> list[dict[str, Any]]:
    """All runs, in their order."""
    return [
        {
            "name": f"{model}-{method}",
            "result": f"results/frames.json#{model}-{method}",
            "purpose": f"{title}, {what}",
            "target": None,
            "arguments": [
                *("--model", model, "--options", json.dumps(options)),
                *(word.format(runs=runs, model=model) if word.startswith("{runs}") else word for word in arguments),
                *(*SHARED, "--epochs", str(epochs)),
            ],
        }
        for model, (title, options) in MODELS.items()
        for method, (what, arguments, epochs) in METHODS.items()
    ]


if __name__ == "__main__":
    FILE.write_text(json.dumps(cells(*sys.argv[1:2]), indent=2) + "\n", encoding="utf-8")
