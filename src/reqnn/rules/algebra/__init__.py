"""What a tensor of quaternions can do whatever the layers are: shapes, indices, sums, products, norms."""

from reqnn.rules.algebra import arithmetic, conversion, gates, indexing, joining, products, reduction, scatter, shape, spellings  # isort: split

from reqnn.rules.algebra import gathered_structure, gathered_sums, gathering
from reqnn.rules.algebra.base import algebra

__all__ = [
    "algebra",
    "arithmetic",
    "conversion",
    "gates",
    "gathered_structure",
    "gathered_sums",
    "gathering",
    "indexing",
    "joining",
    "products",
    "reduction",
    "scatter",
    "shape",
    "spellings",
]
