"""What every model asks of its arguments: enough points, and hidden widths that scale together."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import InputError


def scaled(channels: int, width: float) -> int:
    """Return a hidden width times the multiplier `width`, at least 1."""
    if not width > 0:
        raise InputError(f"width={width} was given; it multiplies every hidden width, so give a positive number")
    return max(1, round(channels * width))


def check_points(points: torch.Tensor, at_least: int, reason: str, option: str = "npoint") -> None:
    """Raise `InputError` unless `points` is (B, N, 3) with N ≥ `at_least`; reads shapes only, never values."""
    if points.dim() != 3:
        raise InputError(f"points has shape {tuple(points.shape)}; expected (B, N, 3): a batch of clouds of xyz")
    if points.shape[1] < at_least:
        raise InputError(
            f"{reason}, but a cloud of shape {tuple(points.shape)} = (B, N, 3) has only N = {points.shape[1]}. "
            f"Give at least {at_least} points, or set a smaller {option} when the model is built: "
            f"create_model(name, {option}=...)"
        )


def one_of(**options: tuple[Any, tuple[Any, ...]]) -> None:
    """Raise `InputError` unless each option, a (value, choices), is one of its choices."""
    for name, (value, choices) in options.items():
        if value not in choices:
            raise InputError(f"{name}={value!r}; give one of {', '.join(map(repr, choices))}")
