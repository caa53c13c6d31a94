"""The set of rules, its options, and what its layers share: linear maps over channels.

A feature of Vector Neurons is a list of vectors V (C, 3), which is the imaginary part of C quaternions; every learned map mixes
the channels with real weights, W·V, and so commutes with rotations.
"""

from __future__ import annotations

from torch import Tensor

from reqnn.errors import NoRuleError
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


def vectors_of(x: Q) -> Tensor:
    """The components (3, *) of features that are vectors and nothing else."""
    if x.components.shape[0] != 3:
        raise NoRuleError("declared scalars stand beside the vectors here; let a linear layer take them in first")
    return x.components
