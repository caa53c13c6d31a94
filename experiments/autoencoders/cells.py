"""Write the autoencoders on ShapeNet as cells of a queue, to train them longer: `python -m experiments.autoencoders.cells`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.autoencoders.command import NETWORKS, run_name, settings_of

FILE = Path(__file__).with_name("cells.json")
DATA, EPOCHS = "shapenet", 16


def cells() -> list[dict[str, Any]]:
    """All runs, in their order; `python -m experiments autoencoders --data shapenet --epochs 16` tests them."""
    return [
        {
            "name": run_name(name, DATA),
            "purpose": f"autoencoder on ShapeNet: {name}",
            "target": None,
            "arguments": [*_words(settings_of(name, DATA, EPOCHS)), "--threads", "1"],
        }
        for name in NETWORKS
    ]


def _words(settings: dict[str, Any]) -> list[str]:
    """Settings as arguments of `reqnn train`."""
    words = ["--equivariant"] if settings["equivariant"] else []
    for name, value in settings.items():
        if name != "equivariant":
            words += [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return words


if __name__ == "__main__":
    FILE.write_text(json.dumps(cells(), indent=2) + "\n", encoding="utf-8")
