"""The trained weights that come with the package."""

from __future__ import annotations

from pathlib import Path

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
"""Where they are."""


def list_weights() -> list[str]:
    """The names that `reqnn.load` takes: what is in the package's folder of weights."""
    return sorted(path.stem for path in WEIGHTS.glob("[!.]*.safetensors"))
