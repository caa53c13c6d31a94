"""Full quaternions: the real parts run the ordinary network, the imaginary ones carry orientation. One file a layer."""

from reqnn.rules.full import batch_norm, invariant, linear, pooling, relu
from reqnn.rules.full.base import full  # isort: split

from reqnn.rules.full import grouped

__all__ = ["batch_norm", "full", "grouped", "invariant", "linear", "pooling", "relu"]
