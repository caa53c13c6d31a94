"""The set of rules, its options, and what its layers share: linear maps over channels.

A feature of Vector Neurons is a list of vectors V (C, 3), which is the imaginary part of C quaternions; every learned map mixes
the channels with real weights, W·V, and so commutes with rotations.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import InputError, NoRuleError
from reqnn.rules.paper.base import paper
from reqnn.rules.registry import RuleSet
from reqnn.tensor import QuaternionTensor as Q

vector_neurons = RuleSet(
    "vector-neurons",
    parent=paper,
    options={"slope": None, "direction": "channel", "pooling": "mean", "readings": 3, "frame_width": 64},
)
"""Options: ``slope``, of all leaky ReLUs, None for that of the original (0 for ReLU); ``direction``, whether every channel has
a learned direction of its own ("channel") or all of a place have one ("shared"); ``pooling``, "mean", or "max" by a learned
direction; ``readings``, 3 numbers a feature in the learned frame, or 1 where the network's code fixes the width;
``frame_width``, the hidden width of the network that makes the frame."""


def choice(x: Q, option: str, *values: Any) -> Any:
    """An option that has to be one of some values."""
    given = x.context.rules.option(option)
    if given not in values:
        raise InputError(f"the option {option} of the rule set is {given!r}; it must be {' or '.join(map(repr, values))}")
    return given


def vectors_of(x: Q) -> Tensor:
    """The components (3, *) of features that are vectors and nothing else."""
    if x.components.shape[0] != 3:
        raise NoRuleError("declared scalars stand beside the vectors here; let a linear layer take them in first")
    return x.components


def channel_axis(x: Q) -> int:
    """The axis that layers mix: where the last linear map had it, or that of coordinates; 1 where neither is known."""
    known = x.channel_axis if x.channel_axis is not None else x.axis
    return min(1, x.rank - 1) if known is None else known


def uniform(weight: Tensor) -> None:
    """Weights (O, C) with which W·V has vectors about as long as V."""
    bound = math.sqrt(3 / weight.shape[1])
    with torch.no_grad():
        weight.uniform_(-bound, bound)
