"""Independent random streams, the same on every machine."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from reqnn.errors import InputError

Purpose = Literal["sampling", "surface", "rotation", "split", "scan"]


def stream(purpose: Purpose, seed: int, index: int = 0) -> np.random.Generator:
    """The Philox stream of cloud `index` for one purpose.

    Use only its `random()`: numpy guarantees that this does not change, but not `choice` or `normal`.
    """
    block = [0, 0, 0, get_args(Purpose).index(purpose)]
    key = np.array([seed, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=np.array(block, dtype=np.uint64), key=key))


def check_seed(seed: int, name: str = "seed") -> None:
    """Raise `InputError` unless a seed fits into 64 bits."""
    if not 0 <= seed < 2**64:
        raise InputError(f"{name} is {seed}; a whole number from 0 to 2**64 - 1 is needed")
