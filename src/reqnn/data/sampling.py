"""Clouds of the number of points that is asked for, centred and scaled: the same choice from the same seed, everywhere."""

from __future__ import annotations

import numpy as np

from reqnn.data.streams import check_seed, stream
from reqnn.errors import InputError

SAMPLING = ("random", "first")
SHORT = ("error", "repeat")


def choose_points(
    count: int, wanted: int, seed: int, index: int, where: str, sampling: str = "random", short: str = "error"
) -> np.ndarray:
    """Which `wanted` of a cloud's `count` points to take: (wanted,) indices in ascending order.

    All of them where the numbers are equal; a random choice by the stream (seed, index), or the first ones, where there are
    more; where there are fewer, `InputError`, or with short="repeat" every point about equally often.
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
            f"{where}: its {len(cloud)} points are all in one place, so that it has no size to scale by; "
            "take the file out, ask for more points, or normalize=False"
        )
    return (centred / radius).astype(np.float32)


def check_sampling(sampling: str, short: str, points: int, seed: int) -> None:
    """Raise `InputError` unless these settings are known."""
    if sampling not in SAMPLING:
        raise InputError(f"sampling is {sampling!r}; it is one of {', '.join(SAMPLING)}")
    if short not in SHORT:
        raise InputError(f"short is {short!r}; it is one of {', '.join(SHORT)}")
    if points < 1:
        raise InputError(f"points is {points}; at least 1 is needed")
    check_seed(seed)
