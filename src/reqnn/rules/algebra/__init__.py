"""What a tensor of quaternions can do whatever the layers are: shapes, indices, sums, products, norms."""

from reqnn.rules.algebra import arithmetic, conversion, indexing, joining, products, reduction, shape
from reqnn.rules.algebra.base import algebra

__all__ = ["algebra", "arithmetic", "conversion", "indexing", "joining", "products", "reduction", "shape"]
