"""Subsample, centre and scale clouds; the same for the same seed on every machine."""

from __future__ import annotations

import numpy as np

from reqnn.data.streams import check_seed, stream
from reqnn.errors import InputError

SAMPLING = ("random", "first")
SHORT = ("error", "repeat")


def choose_points(
    count: int, wanted: int, seed: int, index: int, where: str, sampling: str = "random", short: str = "error"
) -> np.ndarray:
    """Choose `wanted` of a cloud's `count` points: (wanted,) indices in ascending order.

    A random choice by the stream (seed, index), or the first ones. If there are too few, `InputError`, or with
    short="repeat" every point about equally often.
    """
    if wanted < 1:
        raise InputError(f"points is {wanted}; at least 1 is needed")
    if count == 0:
        raise InputError(f"{where} holds no points")
    if count < wanted and short != "repeat":
        raise InputError(f"{where} holds {count} points; {wanted} are asked for: ask for {count} or fewer, or short='repeat'")
    times, rest = divmod(wanted, count)
    whole = np.repeat(np.arange(count), times)
    if rest == 0:
        return whole
    part = np.arange(rest) if sampling == "first" else _random(count, rest, seed, index)
    return np.sort(np.concatenate([whole, part]))


def _random(count: int, wanted: int, seed: int, index: int) -> np.ndarray:
    return np.argpartition(stream("sampling", seed, index).random(count), wanted)[:wanted]


def normalise(cloud: np.ndarray, where: str) -> np.ndarray:
    """A cloud (N, 3) centred on its mean and scaled to the unit sphere, in float32."""
    centred = cloud.astype(np.float64) - cloud.mean(0, dtype=np.float64)
    radius = np.sqrt((centred**2).sum(1).max())
    if not radius > 1e-12 * (1 + np.abs(cloud).max()):
        raise InputError(
            f"{where}: its {len(cloud)} points coincide, so it cannot be scaled; remove the file, ask for more points, or "
            "pass normalize=False"
        )
    return (centred / radius).astype(np.float32)


def check_sampling(sampling: str, short: str, points: int, seed: int) -> None:
    """Raise `InputError` for invalid settings."""
    if sampling not in SAMPLING:
        raise InputError(f"sampling is {sampling!r}; it is one of {', '.join(SAMPLING)}")
    if short not in SHORT:
        raise InputError(f"short is {short!r}; it is one of {', '.join(SHORT)}")
    if points < 1:
        raise InputError(f"points is {points}; at least 1 is needed")
    check_seed(seed)
