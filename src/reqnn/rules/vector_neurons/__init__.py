"""The rules of Vector Neurons (Deng et al., ICCV 2021), one file a layer; what they do not replace is the paper's."""

from reqnn.rules.vector_neurons import batch_norm, invariant, pooling, relu
from reqnn.rules.vector_neurons.base import vector_neurons  # isort: split

from reqnn.rules.vector_neurons import grouped

__all__ = ["batch_norm", "grouped", "invariant", "pooling", "relu", "vector_neurons"]
