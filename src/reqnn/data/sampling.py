"""Random streams, subsampling and scaling of clouds; the same for the same seed on every machine."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from reqnn.errors import InputError, check_choice, check_least

Purpose = Literal["sampling", "surface", "rotation", "split", "scan"]


def stream(purpose: Purpose, seed: int, index: int = 0) -> np.random.Generator:
    """The Philox stream of cloud `index` for one purpose.

    Use only its `random()`: numpy guarantees that this does not change, but not `choice` or `normal`.
    """
    counter = np.array([0, 0, 0, get_args(Purpose).index(purpose)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=np.array([seed, index], dtype=np.uint64)))


def check_seed(seed: int, name: str = "seed") -> None:
    """Raise `InputError` unless a seed fits into 64 bits."""
    if not 0 <= seed < 2**64:
        raise InputError(f"{name} is {seed}; a whole number from 0 to 2**64 - 1 is needed")


def check_sampling(sampling: str, short: str, points: int, seed: int) -> None:
    """Raise `InputError` for invalid settings."""
    check_choice(sampling, ("random", "first"), "sampling")
    check_choice(short, ("error", "repeat"), "short")
    check_least(points, "points")
    check_seed(seed)


def choose_points(
    count: int, wanted: int, seed: int, index: int, where: str, sampling: str = "random", short: str = "error"
) -> np.ndarray:
    """Choose `wanted` of a cloud's `count` points: (wanted,) indices in ascending order.

    A random choice by the stream (seed, index), or the first ones. If there are too few, `InputError`, or with
    short="repeat" every point about equally often.
    """
    check_least(wanted, "points")
    if count == 0:
        raise InputError(f"{where} holds no points")
    if count < wanted and short != "repeat":
        raise InputError(f"{where} holds {count} points; {wanted} are asked for: ask for {count} or fewer, or short='repeat'")
    times, rest = divmod(wanted, count)
    part = np.arange(rest)
    if rest and sampling != "first":
        part = np.argpartition(stream("sampling", seed, index).random(count), rest)[:rest]
    return np.sort(np.concatenate([np.repeat(np.arange(count), times), part]))


def normalise(cloud: np.ndarray, where: str, dtype: type[np.floating] = np.float32) -> np.ndarray:
    """A cloud (N, 3) centred on its mean and scaled to the unit sphere."""
    size = float(np.abs(cloud).max())
    if not np.isfinite(size):
        raise InputError(f"{where} holds NaN or infinite coordinates; remove those points first")
    scaled = cloud / np.float64(size or 1.0)  # squares of any coordinates are numbers then
    centred = scaled - scaled.mean(0)
    radius = np.sqrt((centred**2).sum(1).max())
    if not radius > 1e-12:
        what = f"{where}: its {len(cloud)} points coincide, so it cannot be scaled"
        raise InputError(f"{what}; remove the file, ask for more points, or pass normalize=False")
    return (centred / radius).astype(dtype)
