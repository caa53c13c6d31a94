"""What the factorised edge convolutions of rule sets share: they stand for an ordinary block, or step aside."""

from __future__ import annotations

from typing import Any

from torch import nn

from reqnn.nn.ordinary import run_ordinary
from reqnn.tensor import QuaternionTensor as Q


class FactorisedEdgeConv(nn.Sequential):
    """A 1×1 convolution, a batch-norm and a leaky ReLU on edges [f_j − f_i, f_i], pooled over the k nearest neighbours.

    Shapes:
        input: quaternions (B, C, N); output: quaternions (B, O, N)

    Args:
        original: the ordinary block: its three layers, and `k`. It runs in the dry run, which makes the parameters that its
            rules learn, and wherever the loops cannot.
    """

    def __init__(self, original: Any) -> None:
        super().__init__(*original)
        self.k: int = original.k
        self._original = [original]  # in a list: its parameters are registered once, as those of this module

    def forward(self, x: Q) -> Q:
        """By loops over the edges, or by the generic rules."""
        convolution, norm, activation = self
        if type(activation) is nn.LeakyReLU and self.serves(x, convolution, norm):
            return self.fused(x, convolution, norm, activation)
        generic: Q = run_ordinary(self._original[0], self, x)
        return generic

    def serves(self, x: Q, convolution: Any, norm: Any) -> bool:
        """Whether the loops can run on these features, with these layers, now: statistics that processes share, and layers
        that were exchanged for others, are left to the generic rules.
        """
        raise NotImplementedError

    def fused(self, x: Q, convolution: Any, norm: Any, activation: Any) -> Q:
        """The block in loops over the edges."""
        raise NotImplementedError
