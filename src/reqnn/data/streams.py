"""Streams of random numbers that are the same on every machine and independent of each other."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from reqnn.errors import InputError

Purpose = Literal["sampling", "surface", "rotation", "split", "scan"]


def stream(purpose: Purpose, seed: int, index: int = 0) -> np.random.Generator:
    """The stream of cloud `index` for one purpose: Philox, whose numbers follow from seed, index and purpose alone.

    Use `random()` of it: numpy promises the raw stream for ever, but not what `choice` or `normal` make of it.
    """
    block = [0, 0, 0, get_args(Purpose).index(purpose)]
    key = np.array([seed, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=np.array(block, dtype=np.uint64), key=key))


def check_seed(seed: int, name: str = "seed") -> None:
    """Raise `InputError` unless a seed fits into 64 bits."""
    if not 0 <= seed < 2**64:
        raise InputError(f"{name} is {seed}; a whole number from 0 to 2**64 - 1 is needed")
