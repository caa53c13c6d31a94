"""What rule sets with learned layers share: their options, the axis of channels, the weights that they begin with."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import InputError
from reqnn.tensor import QuaternionTensor as Q


def choice(x: Q, option: str, *values: Any) -> Any:
    """An option that has to be one of some values."""
    given = x.context.rules.option(option)
    if given not in values:
        raise InputError(f"the option {option} of the rule set is {given!r}; it must be {' or '.join(map(repr, values))}")
    return given


def whole_number(x: Q, option: str) -> int:
    """An option that has to be a whole number of at least 1."""
    given = x.context.rules.option(option)
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InputError(f"the option {option} of the rule set is {given!r}; it must be a whole number of at least 1")
    return given


def channel_axis(x: Q) -> int:
    """The axis that layers mix: where the last linear map had it, or that of coordinates; 1 where neither is known."""
    known = x.channel_axis if x.channel_axis is not None else x.axis
    return min(1, x.rank - 1) if known is None else known


def uniform(weight: Tensor) -> None:
    """Weights (O, C, *) with which W·V has vectors about as long as V."""
    bound = math.sqrt(3 / weight[0].numel())
    with torch.no_grad():
        weight.uniform_(-bound, bound)
