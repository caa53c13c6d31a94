"""The paper's rules. One file a row of Table 1; rows beyond it are marked as extensions."""

from reqnn.rules.paper import (
    attention,
    average_pooling,
    batch_norm,
    convolution,
    cross_product,
    dropout,
    layer_norm,
    max_pooling,
    point_lists,
    quaternion_to_real,
    relu,
)
from reqnn.rules.paper.base import paper  # isort: split

from reqnn.rules.paper import grouped

__all__ = [
    "attention",
    "average_pooling",
    "batch_norm",
    "convolution",
    "cross_product",
    "dropout",
    "grouped",
    "layer_norm",
    "max_pooling",
    "paper",
    "point_lists",
    "quaternion_to_real",
    "relu",
]
