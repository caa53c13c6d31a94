"""What every operation on points asks of its input."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import InputError


def as_coordinates(x: Any) -> Any:
    """Return the plain real coordinates of a quaternion tensor, (B, N, D); anything else comes back as it is."""
    to_real = getattr(x, "as_real_coordinates", None)
    return to_real() if to_real else x


def check_cloud(x: Any, name: str, dimension: int | None = 3) -> Tensor:
    """Return `x` as (B, N, D) floating coordinates or raise `InputError`; D is free where `dimension` is None."""
    x = as_coordinates(x)
    expected = f"(B, N, {dimension or 'D'}), batch, points, coordinates"
    if not isinstance(x, Tensor):
        raise InputError(f"{name} is a {type(x).__name__}; a tensor {expected} is needed: use torch.as_tensor.")
    if x.ndim != 3:
        raise InputError(
            f"{name} has shape {tuple(x.shape)}; {expected}, is needed: add a batch axis with {name}[None], "
            "or flatten several into one."
        )
    if dimension is not None and x.shape[2] != dimension:
        raise InputError(
            f"{name} has shape {tuple(x.shape)}; {expected}, is needed: transpose(1, 2) a channel-first cloud, "
            "and slice off what is no coordinate."
        )
    if x.shape[0] == 0 or x.shape[1] == 0 or x.shape[2] == 0:
        raise InputError(f"{name} of shape {tuple(x.shape)} is empty; at least one point is needed: drop empty clouds.")
    if not x.is_floating_point():
        raise InputError(f"{name} has dtype {x.dtype}; a floating one is needed: call {name}.float() first.")
    if x.dtype not in (torch.float32, torch.float64):
        x = x.float()  # the values are kept; only the search runs at a precision at which distances are of use
    if values_readable(x) and not all(map(math.isfinite, extremes(x))):
        bad = int((~torch.isfinite(x)).any(-1).sum())
        raise InputError(f"{name} holds NaN or infinity in {bad} points; finite ones are needed: filter them out first.")
    return x


def check_query(xyz: Tensor, query: Any, name: str, dimension: int | None = 3) -> Tensor:
    """Return `query` as (B, M, D) coordinates that match the cloud in batch, dimension and dtype."""
    query = check_cloud(query, name, dimension)
    if query.shape[0] != xyz.shape[0] or query.shape[2] != xyz.shape[2]:
        raise InputError(
            f"{name} has shape {tuple(query.shape)} and xyz {tuple(xyz.shape)}; both need the same batch size and "
            "dimension: expand the smaller batch."
        )
    if query.dtype != xyz.dtype:
        raise InputError(f"{name} has dtype {query.dtype} and xyz {xyz.dtype}; use one dtype: {name}.to(xyz.dtype).")
    return query


def check_count(count: Any, points: int, name: str) -> int:
    """Return `count` where it is a whole number from 1 to the number of points."""
    if isinstance(count, bool) or not isinstance(count, (int, torch.SymInt)):
        raise InputError(f"{name} is {count!r}; a whole number is needed: use int({name}).")
    if count < 1 or count > points:
        raise InputError(f"{name} = {count} of {points} points; 1 ≤ {name} ≤ {points} is needed: lower {name} or add points.")
    return int(count)


def check_length(value: Any, name: str) -> float:
    """Return `value` where it is a positive, finite length."""
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError(f"{name} = {value!r}; a positive, finite number is needed, in the units of the coordinates.")
    return float(value)


def extremes(x: Tensor) -> tuple[float, float]:
    """Smallest and largest value, both NaN where one value is: in one pass and without a copy."""
    low, high = x.detach().aminmax()
    return float(low), float(high)


def values_readable(x: Tensor) -> bool:
    """Whether code may branch on values: not while a graph is traced, exported or compiled, nor on a GPU, which would stall."""
    return not torch.compiler.is_compiling() and x.device.type == "cpu"


def distances(a: Tensor, b: Tensor) -> Tensor:
    """‖a - b‖ by differences, as x² - 2xy + y² loses half the digits of a small one: (B, M, D), (B, N, D) -> (B, M, N)."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def check_finite(x: Tensor, message: str) -> None:
    """Raise `InputError` for NaN and infinity; on a GPU the check runs there, and fails later, without waiting for it."""
    if values_readable(x):
        if not all(map(math.isfinite, extremes(x))):
            raise InputError(message)
    elif x.device.type == "cuda" and not torch.compiler.is_compiling():
        torch._assert_async(torch.isfinite(x).all(), message)
